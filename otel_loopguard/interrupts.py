"""Recognise exceptions that come from outside: raised by a signal handler, or injected by another thread.

A time limit (Celery's ``SoftTimeLimitExceeded``, ``signal.alarm``, RQ's death penalty) may strike at any instruction,
also in this package. It is no fault of the code that it strikes in, and the program waits for it. So every ``except``
of this package that could catch one passes it on.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from _signal import NSIG, getsignal  # type: ignore[import-not-found]  # that of ``signal`` takes ten times as long, to return enumerations
from itertools import pairwise
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType, TracebackType

_PACKAGE: Final = __name__.partition(".")[0]
_EXPLAINED: Final = frozenset(
    dis.opmap[name] for name in ("RAISE_VARARGS", "RERAISE", "SEND", "YIELD_FROM", "YIELD_VALUE") if name in dis.opmap
)
"""Instructions that raise an exception of any class: ``raise``, and those that resume a coroutine."""


def pass_interrupt(error: BaseException) -> None:
    """Raise the exception again if it came from outside. Each ``except`` that could catch one calls this first."""
    if is_interrupt(error):
        raise error


def is_interrupt(error: BaseException) -> bool:
    """Return True if a signal handler raised the exception, or another thread injected it.

    An injected exception has no frame of its own. It is recognised where it strikes in this package, in OpenTelemetry
    or in the standard library, if its class is defined elsewhere and no instruction there could have raised it. One
    that is no ``Exception`` is meant to end something (Ctrl-C, a thread), unless an instruction raised it.
    """
    step, last, handlers = error.__traceback__, None, None
    while step is not None:
        frame = step.tb_frame
        if _home(frame.f_globals.get("__name__")) != _PACKAGE:
            if _was_called_as_handler(frame):
                return True
            handlers = set(_installed()) if handlers is None else handlers
            if frame.f_code in handlers:
                return True
        step, last = step.tb_next, step
    if last is None:
        return False
    is_usual = issubclass(type(error), Exception)
    return _was_injected(type(error), last) if is_usual else not _was_raised(error, last)


def _installed() -> Iterator[CodeType | None]:
    """Yield the code of the installed signal handlers: functions, methods, partials and callable objects."""
    for number in range(1, NSIG):
        handler: Any = getsignal(number)
        if handler is None or type(handler) is int:  # the default, or none
            continue
        while type(handler) in (functools.partial, MethodType):
            handler = handler.func if type(handler) is functools.partial else handler.__func__
        code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
        if code is not None:
            yield code


def _was_called_as_handler(frame: FrameType) -> bool:
    """Return True if the function was called with a number and the frame that was running, as handlers are.

    It finds a handler that removed itself before it raised.
    """
    code, values = frame.f_code, frame.f_locals
    given = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & inspect.CO_VARARGS:
        given += values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount]) or ()
    caller = frame.f_back
    return caller is not None and any(two is caller and isinstance(one, int) for one, two in pairwise(given))


def _was_injected(kind: type[BaseException], innermost: TracebackType) -> bool:
    home, frame = _home(kind.__module__), innermost.tb_frame
    if home in (_PACKAGE, "builtins", "orjson") or home in sys.stdlib_module_names:
        return False  # a fault may be of such a class
    place = _home(frame.f_globals.get("__name__"))
    known = place in (_PACKAGE, "opentelemetry") or place in sys.stdlib_module_names
    if not known and not place.startswith("namedtuple_"):
        return False  # C code of others may raise any class
    return frame.f_code.co_code[innermost.tb_lasti] not in _EXPLAINED


def _was_raised(error: BaseException, innermost: TracebackType) -> bool:
    """Return True if the code where the exception began raised it. ``sys.exit`` is a function in C."""
    code = innermost.tb_frame.f_code
    return code.co_code[innermost.tb_lasti] in _EXPLAINED or (isinstance(error, SystemExit) and "exit" in code.co_names)


def _home(module: Any) -> str:
    """Return the first part of a module's name: its top-level package."""
    return module.partition(".")[0] if isinstance(module, str) else ""
