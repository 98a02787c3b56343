"""Run a function as its guarded call: one driver for each sort of function."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.guard.turn import on_event_loop
from otel_loopguard.instrumentation.call import drive_async
from otel_loopguard.instrumentation.functions.generators import drive_async_generator, drive_generator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from otel_loopguard.instrumentation.call import GuardedCall

    Driver = Callable[[GuardedCall | None, Callable[[], Any]], Any]
    """Run a function that needs no more arguments as this call. A call of None runs unguarded."""

__tracebackhide__ = True  # pytest shows the lines of the program, not these


def drive_function(call: GuardedCall | None, run: Callable[[], Any]) -> Any:
    """Run a plain function as this call, and return its result: also a coroutine or generator that has not begun."""
    if call is None:
        return run()
    try:
        with call:
            if not call.answered:
                return call.result(run())
            with call.runtime.shield("function.answer"):
                return _for_any_use(call.answer)
            return call.answer
    except BaseException:
        call.cut_short()
        raise


def _for_any_use(answer: Any) -> Any:
    """Return a refusal that async code may also await or iterate, as it may the result of a plain function."""
    return _AnyUseText(answer) if type(answer) is str and on_event_loop() else answer


class _AnyUseText(str):
    """A refusal that can be read, awaited or iterated."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, str]:
        yield from ()  # a generator, as ``await`` requires
        return str(self)

    async def __aiter__(self) -> AsyncGenerator[str, None]:
        yield str(self)


_DRIVERS: Final[dict[Callable[[Any], bool], Driver]] = {
    inspect.iscoroutinefunction: drive_async,
    inspect.isgeneratorfunction: drive_generator,
    inspect.isasyncgenfunction: drive_async_generator,
}
_WORK: Final = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def driver_of(function: Any) -> Driver:
    """Return the driver for a function, or a callable object, of this sort: plain, coroutine or generator."""
    if type(function) is FunctionType and not function.__dict__ and not function.__code__.co_flags & _WORK:
        return drive_function  # most are plain, and the checks below take a part of a call
    method = getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is needed
    found = (driver for is_of_sort, driver in _DRIVERS.items() if is_of_sort(function) or is_of_sort(method))
    return next(found, drive_function)
