"""Functions whose result is not what they bring, but work that begins later: a coroutine, a future, a generator.

Only a call tells that of a lambda around an async client. So the call is judged when the function is called, as any
is, and lent to what comes back: it is ended where that ends. What is never begun is closed as cancelled.
"""

from __future__ import annotations

import inspect
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.core.bare import defines

from .dispatch import drive_async
from .generators import async_driver, drive_generator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

    from .dispatch import Step

AWAITED, FUTURE, GENERATOR, ASYNC_GENERATOR = "awaited", "future", "generator", "async generator"
PLAIN = "plain"
_DATA: Final = frozenset({str, dict, list, tuple, int, float, bool, bytes, type(None)})
_PRIVATE_MARK = "_asyncio_future_blocking"
_CALL = "__call__"


def shape_of(result: Any) -> str:
    """What sort of work a result is, if it is none itself; told by its type alone, so that no proxy is woken."""
    kind = type(result)
    if kind in _DATA:
        return PLAIN
    if kind is GeneratorType:
        return AWAITED if result.gi_code.co_flags & inspect.CO_ITERABLE_COROUTINE else GENERATOR
    if kind is AsyncGeneratorType:
        return ASYNC_GENERATOR
    # What is an async context manager as well (aiohttp's requests) would lose that by being wrapped.
    if kind is CoroutineType or (defines(kind, "__await__") and not defines(kind, "__aenter__")):
        return FUTURE if defines(kind, _PRIVATE_MARK) else AWAITED
    return PLAIN


def is_async(function: Any) -> bool:
    """Whether calling it gives a coroutine; a plain function that nobody marked is known at a glance."""
    if type(function) is FunctionType and not function.__dict__:
        return bool(function.__code__.co_flags & inspect.CO_COROUTINE)
    return any(inspect.iscoroutinefunction(one) for one in (function, getattr(type(function), _CALL, None)))


def declared(function: Any) -> str | None:
    """What is known of a function that never ran; None where nothing is."""
    if inspect.isasyncgenfunction(function):
        return ASYNC_GENERATOR
    return GENERATOR if inspect.isgeneratorfunction(function) else None


class _Lent:
    """Holds a call for the work that it is lent to. Kept by that alone: where it goes unbegun, so does this."""

    def __init__(self, step: Step, work: Any) -> None:
        self._step: Step | None = step
        self.work = work

    def begin(self) -> Step:
        step, self._step = self._step, None
        if step is None:
            raise RuntimeError("cannot be begun twice")
        return step

    def __del__(self) -> None:
        # Not closed right here: the garbage collector may run in the midst of anything, also under a lock.
        if self._step is not None:
            if type(self.work) is CoroutineType:
                self.work.close()  # Python will say of ours that it was never awaited, once is enough
            self._step.runtime.unbegun.append(self._step)


def drive_plain(step: Step, run: Callable[[], Any], function: Any) -> Any:
    """A function that is neither a coroutine function nor a generator function itself."""
    name, shapes = step.tool, step.runtime.shapes
    with step:
        if step.answered:
            with step.runtime.shield("function.answer"):
                return answered(step.answer, shapes.get(name) or declared(function))
            return step.answer
        result = run()
        shape = PLAIN
        if type(result) is not str:
            with step.runtime.shield("function.result"):
                shape = shape_of(result)
        shapes[name] = shape
        if shape is PLAIN:
            return step.result(result)
        try:
            return lend(step, result, shape)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            step.runtime.shield.take("function.lend", error)
        return result


def lend(step: Step, work: Any, shape: str) -> Any:
    """The work, with the call around it, to be used as the function's own result would be."""
    step.lend()
    lent = _Lent(step, work)
    if shape == GENERATOR:
        return _generated(lent)
    if shape == ASYNC_GENERATOR:
        return async_driver(lambda *_: lent.begin(), lambda: lent.work)()
    ours: Any = _awaited(lent)
    if shape == FUTURE:
        import asyncio  # noqa: PLC0415 - who has a future has imported it

        return asyncio.ensure_future(ours, loop=work.get_loop())
    if type(work) is CoroutineType:
        ours.__name__, ours.__qualname__ = work.__name__, work.__qualname__
    return ours


async def _awaited(lent: _Lent) -> Any:
    work: Awaitable[Any] = lent.work
    return await drive_async(lent.begin(), lambda: work)


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
    if shape is None:
        return _Text(answer) if type(answer) is str else answer
    if shape == AWAITED:
        return _given(answer)
    if shape == FUTURE:
        import asyncio  # noqa: PLC0415 - as above

        return asyncio.ensure_future(_given(answer), loop=asyncio.get_running_loop())
    if shape == GENERATOR:
        return _generator_of(answer)
    return _async_generator_of(answer) if shape == ASYNC_GENERATOR else answer


async def _given(answer: Any) -> Any:
    return answer


def _generator_of(answer: Any) -> Generator[Any, None, None]:
    yield answer


async def _async_generator_of(answer: Any) -> AsyncGenerator[Any, None]:
    yield answer
