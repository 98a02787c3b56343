"""Functions whose result is not what they bring, but work that begins later: a coroutine, a future, a generator.

Only a call tells that of a lambda around an async client. So the call is judged when the function is called, as any
is, and lent to what comes back: it is ended where that ends. What is never begun is closed as cancelled. Only what is
nothing but a coroutine or a generator is replaced; what else can be awaited may be used in other ways, too.
"""

from __future__ import annotations

import functools
import inspect
import types
from types import CoroutineType, FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.functions.generators import async_driver, drive_generator
from otel_loopguard.instrumentation.functions.result_kinds import (
    ASYNC_GENERATOR,
    AWAITED,
    EITHER,
    FUTURE,
    GENERATOR,
    PLAIN,
    UNREAD,
    declared,
    shape_of,
)
from otel_loopguard.instrumentation.tool_call import drive_async

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

    from otel_loopguard.instrumentation.tool_call import GuardedCall
    from otel_loopguard.shield import Shield

_CALL = "__call__"


def is_async(function: Any) -> bool:
    """Whether calling it gives a coroutine; a plain function that nobody marked is known at a glance."""
    if type(function) is FunctionType and not function.__dict__:
        return bool(function.__code__.co_flags & inspect.CO_COROUTINE)
    return any(inspect.iscoroutinefunction(one) for one in (function, getattr(type(function), _CALL, None)))


class _Lent:
    """Holds a call for the work that it is lent to. Kept by that alone: where it goes unbegun, so does this."""

    def __init__(self, step: GuardedCall, work: Any) -> None:
        self._step: GuardedCall | None = step
        self.work = work

    def begin(self) -> GuardedCall:
        step, self._step = self._step, None
        if step is None:
            raise RuntimeError("cannot be begun twice")
        return step

    def __del__(self) -> None:
        # Not closed right here: the garbage collector may run in the midst of anything, also under a lock.
        if self._step is not None:
            if type(self.work) is CoroutineType:
                self.work.close()  # Python will say of ours that it was never awaited, once is enough
            self._step.runtime.deferred_ends.append(self._step)


def drive_plain(step: GuardedCall, run: Callable[[], Any], function: Any) -> Any:
    """A function that is neither a coroutine function nor a generator function itself."""
    with step:
        if step.answered:
            with step.runtime.shield("function.answer"):
                return answered(step.answer, _expected(step, function))
            return step.answer
        result, shape = run(), PLAIN
        try:
            if type(result) is not str:
                shape = shape_of(result)
            if function is not None:  # a tool that does not exist has nothing to remember
                step.runtime.shapes.note(function, shape)
            if shape == UNREAD:
                step.unread()
        except Exception as error:  # noqa: BLE001 - see Shield.take
            step.runtime.shield.take("function.result", error)
        if shape in (PLAIN, UNREAD):
            return step.result(result)
        try:
            return lend(step, result, shape)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            step.runtime.shield.take("function.lend", error)
        return result


def _expected(step: GuardedCall, function: Any) -> str | None:
    """What callers of this function expect: first of all what it says of itself."""
    return PLAIN if function is None else declared(function) or step.runtime.shapes.of(function)


def lend(step: GuardedCall, work: Any, shape: str) -> Any:
    """The work, with the call around it, to be used as the function's own result would be."""
    step.lend()
    if shape == FUTURE:
        _watch(_Lent(step, None), work, step.runtime.shield)
        return work
    lent = _Lent(step, work)
    if shape == GENERATOR:
        return _generated(lent)
    if shape == ASYNC_GENERATOR:
        return async_driver(lambda *_: lent.begin(), lambda: lent.work)()
    if type(work) is GeneratorType:
        return _iterated(lent)
    ours: Any = _awaited(lent)
    ours.__name__, ours.__qualname__ = work.__name__, work.__qualname__
    return ours


def _watch(lent: _Lent, future: asyncio.Future[Any], shield: Shield) -> None:
    """A future is the program's own, by its identity and its name: it is not replaced, but asked when it is done."""
    import asyncio  # noqa: PLC0415 - who has a future has imported it

    settled = functools.partial(_settled, lent, shield)
    loop = future.get_loop()
    if future.done():  # who awaits it goes on at once, and may make the next call before any callback
        settled(future)
    elif loop is asyncio._get_running_loop():  # noqa: SLF001 - documented, and the one that does not raise
        future.add_done_callback(settled)
    else:  # callbacks belong to the loop's own thread
        loop.call_soon_threadsafe(future.add_done_callback, settled)


def _settled(lent: _Lent, shield: Shield, future: asyncio.Future[Any]) -> None:
    with shield("function.future"):
        step = lent.begin()
        if future.cancelled():
            step.drop()
            return
        # To call ``exception()`` would be to retrieve it, and asyncio would not say any more that nobody did.
        error = future._exception if hasattr(future, "_exception") else future.exception()  # noqa: SLF001
        with step:
            if error is None:
                step.result(step.streamed(future.result))
            else:  # not raised, which would write our lines into its traceback
                step.__exit__(type(error), error, None)


async def _awaited(lent: _Lent) -> Any:
    work: Awaitable[Any] = lent.work
    return await drive_async(lent.begin(), lambda: work)


@types.coroutine
def _iterated(lent: _Lent) -> Generator[Any, Any, Any]:
    """What ``types.coroutine`` made is a generator, too."""
    return (yield from _awaited(lent))


def _generated(lent: _Lent) -> Generator[Any, Any, Any]:
    return (yield from drive_generator(lent.begin(), lent.work))


class _Text(str):
    """A refusal of a function that never ran, so that nobody knows whether its caller awaits what it gives."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, str]:
        yield from ()  # a generator, which is what ``await`` takes
        return self

    async def __aiter__(self) -> AsyncGenerator[str, None]:
        yield self


def answered(answer: Any, shape: str | None) -> Any:
    """The answer in place of a function's result, as its callers use that."""
    if shape in (None, EITHER, UNREAD):
        return _Text(answer) if type(answer) is str else answer
    if shape == AWAITED:
        return _given(answer)
    if shape == FUTURE:
        import asyncio  # noqa: PLC0415 - as above

        future = asyncio.get_running_loop().create_future()
        future.set_result(answer)
        return future
    if shape == GENERATOR:
        return _generator_of(answer)
    return _async_generator_of(answer) if shape == ASYNC_GENERATOR else answer


async def _given(answer: Any) -> Any:
    return answer


def _generator_of(answer: Any) -> Generator[Any, None, None]:
    yield answer


async def _async_generator_of(answer: Any) -> AsyncGenerator[Any, None]:
    yield answer
