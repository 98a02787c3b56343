"""Plain functions whose result is work that begins later: a coroutine, a future, a generator.

For a lambda around an async client this is known only after the call. So the call is judged when the function is
called, as any call is. It stays open with the work that the function returned, and ends when that work ends. Work that
never begins is closed as cancelled. Only coroutines and generators are replaced by one of this module. Any other
awaitable is returned as it is, because the program may use it in other ways, too.
"""

from __future__ import annotations

import functools
import inspect
import types
from types import CoroutineType, FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.call import drive_async
from otel_loopguard.instrumentation.functions.generators import async_driver, drive_generator
from otel_loopguard.instrumentation.functions.result_kinds import ResultKind, declared_kind, kind_of, known_kinds

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

    from otel_loopguard.instrumentation.call import GuardedCall
    from otel_loopguard.shield import Shield

_PLAIN, _OPAQUE = ResultKind.PLAIN, ResultKind.OPAQUE  # access to a member is slow before Python 3.12


def is_async(function: Any) -> bool:
    """Return True if the function returns a coroutine. The first lines are the fast path for undecorated functions."""
    if type(function) is FunctionType and not function.__dict__:
        return bool(function.__code__.co_flags & inspect.CO_COROUTINE)
    method = getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is needed
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(method)


class _DeferredCall:
    """A call that waits for its work to begin. Only the work refers to it: they are collected together."""

    _guarded: GuardedCall | None = None  # also if an exception of a signal handler strikes in ``__init__``

    def __init__(self, guarded: GuardedCall, work: Any) -> None:
        self.work = work
        self._guarded = guarded  # last: ``__del__`` needs both

    def begin(self) -> GuardedCall:
        guarded, self._guarded = self._guarded, None
        if guarded is None:
            raise RuntimeError("this call was started already")
        return guarded

    def __del__(self) -> None:
        # Not closed here: the garbage collector may run at any line, also while a lock is held.
        if self._guarded is not None:
            if type(self.work) is CoroutineType:
                self.work.close()  # Python warns that our coroutine was never awaited; one warning is enough
            self._guarded.runtime.deferred_ends.append(self._guarded)


def drive_function(guarded: GuardedCall | None, run: Callable[[], Any], function: Any) -> Any:
    """Run a function that is neither a coroutine function nor a generator function; None: without a guard."""
    if guarded is None:
        return run()
    try:
        with guarded:
            if guarded.answered:
                with guarded.runtime.shield("function.answer"):
                    return answer_as(_expected_kind(function), guarded.answer)
                return guarded.answer
            result, kind = run(), _PLAIN
            try:
                if type(result) is not str:
                    kind = kind_of(result)
                if function is not None:  # a tool that does not exist has no kind to remember
                    known_kinds.remember(function, kind)
                if kind is _OPAQUE:
                    guarded.unread()
            except Exception as error:  # noqa: BLE001 - see Shield.take
                guarded.runtime.shield.take("function.result", error)
            if kind is _PLAIN or kind is _OPAQUE:
                return guarded.result(result)
            try:
                return defer(guarded, result, kind)
            except Exception as error:  # noqa: BLE001 - see Shield.take
                guarded.runtime.shield.take("function.lend", error)
            return result
    except BaseException:
        guarded.cut_short()
        raise


def _expected_kind(function: Any) -> ResultKind | None:
    """Return the kind of result that callers of this function expect: the declared kind, else the last one."""
    if function is None:
        return ResultKind.PLAIN
    return declared_kind(function) or known_kinds.expected(function)


def defer(guarded: GuardedCall, work: Any, kind: ResultKind) -> Any:
    """Leave the call open for this work. Return work of the same kind that resumes the call and ends it."""
    guarded.leave_open()
    if kind is ResultKind.FUTURE:
        _end_with_future(_DeferredCall(guarded, None), work, guarded.runtime.shield)
        return work
    deferred = _DeferredCall(guarded, work)
    if kind is ResultKind.GENERATOR:
        return _run_generator(deferred)
    if kind is ResultKind.ASYNC_GENERATOR:
        return async_driver(lambda *_: deferred.begin(), lambda: deferred.work)()
    if type(work) is GeneratorType:
        return _run_generator_coroutine(deferred)
    coroutine: Any = _run_coroutine(deferred)
    coroutine.__name__, coroutine.__qualname__ = work.__name__, work.__qualname__
    return coroutine


def _end_with_future(deferred: _DeferredCall, future: asyncio.Future[Any], shield: Shield) -> None:
    """End the call when the future is done. The future itself is not replaced: programs compare and name them."""
    import asyncio  # noqa: PLC0415 - a program with a future has imported it

    done = functools.partial(_future_done, deferred, shield)
    loop = future.get_loop()
    if future.done():  # its awaiter goes on at once, and may make the next call before any callback runs
        done(future)
    elif loop is asyncio._get_running_loop():  # noqa: SLF001 - documented, and the one that does not raise
        future.add_done_callback(done)
    else:  # callbacks belong to the loop's own thread
        loop.call_soon_threadsafe(future.add_done_callback, done)


def _future_done(deferred: _DeferredCall, shield: Shield, future: asyncio.Future[Any]) -> None:
    with shield("function.future"):
        guarded = deferred.begin()
        if future.cancelled():
            guarded.end()
            return
        # ``exception()`` would mark the exception as retrieved, and asyncio would not report that it never was.
        error = future._exception if hasattr(future, "_exception") else future.exception()  # noqa: SLF001 - see above
        with guarded:
            if error is None:
                guarded.result(guarded.streamed(future.result))
            else:  # not raised: that would add our lines to its traceback
                guarded.__exit__(type(error), error, None)


async def _run_coroutine(deferred: _DeferredCall) -> Any:
    work: Awaitable[Any] = deferred.work
    return await drive_async(deferred.begin(), lambda: work)


@types.coroutine
def _run_generator_coroutine(deferred: _DeferredCall) -> Generator[Any, Any, Any]:
    """Run the result of ``types.coroutine``, which is a generator and a coroutine."""
    return (yield from _run_coroutine(deferred))


def _run_generator(deferred: _DeferredCall) -> Generator[Any, Any, Any]:
    return (yield from drive_generator(deferred.begin(), deferred.work))


class _AnyUseText(str):
    """A refusal that can be read, awaited or iterated, for a function whose kind of result is unknown."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, str]:
        yield from ()  # a generator, as ``await`` requires
        return self

    async def __aiter__(self) -> AsyncGenerator[str, None]:
        yield self


def answer_as(kind: ResultKind | None, answer: Any) -> Any:
    """Return the answer as the kind of result that callers of the function expect."""
    if kind is None or kind is ResultKind.MIXED or kind is ResultKind.OPAQUE:
        return _AnyUseText(answer) if type(answer) is str else answer
    if kind is ResultKind.COROUTINE:
        return _coroutine_of(answer)
    if kind is ResultKind.FUTURE:
        import asyncio  # noqa: PLC0415 - as above

        future = asyncio.get_running_loop().create_future()
        future.set_result(answer)
        return future
    if kind is ResultKind.GENERATOR:
        return _generator_of(answer)
    return _async_generator_of(answer) if kind is ResultKind.ASYNC_GENERATOR else answer


async def _coroutine_of(answer: Any) -> Any:
    return answer


def _generator_of(answer: Any) -> Generator[Any, None, None]:
    yield answer


async def _async_generator_of(answer: Any) -> AsyncGenerator[Any, None]:
    yield answer
