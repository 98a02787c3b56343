"""Exceptions that come from outside are told from faults."""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import json
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider

import otel_loopguard as loopguard
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime
from otel_loopguard.interrupts import is_interrupt
from otel_loopguard.shield import Shield
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIGNAL = signal.SIGUSR1


class TimeLimitError(Exception):
    """Raised by the handlers."""


def over(*_: object) -> None:
    """A handler that calls a helper."""
    helper()


def helper() -> None:
    """Raise for a handler."""
    raise TimeLimitError


def decorated(function: Callable[..., None]) -> Callable[..., None]:
    """A decorator that hides the handler."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        function(*args, **kwargs)

    return wrapper


class Alarm:
    """A handler as a method, as a callable object, and as one that walks up the stack."""

    def ring(self, signum: int, frame: Any) -> None:
        """Raise as a method."""
        raise TimeLimitError

    def __call__(self, signum: int, frame: Any) -> None:
        """Raise as an object."""
        while frame is not None:
            frame = frame.f_back
        raise TimeLimitError(signum)


def once(signum: int, frame: Any) -> None:
    """Remove itself before it raises."""
    signal.signal(signum, signal.SIG_DFL)
    raise TimeLimitError


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = signal.getsignal(SIGNAL)
    yield
    signal.signal(SIGNAL, before)


@contextmanager
def taking(counted: list[str]) -> Iterator[None]:
    """Take the exception of the block as a fault."""
    try:
        yield
    except TimeLimitError as error:
        Shield(counted.append).take("here", error)


@pytest.mark.parametrize(
    "handler",
    [
        over,
        decorated(over),
        functools.partial(over, "more"),
        functools.partial(functools.partial(Alarm().ring)),
        Alarm().ring,
        Alarm(),
        once,
        lambda *_: helper(),
    ],
    ids=["function", "decorated", "partial", "partial method", "method", "object", "once", "lambda"],
)
def test_the_exception_of_any_handler_passes_the_shield(handler: Callable[..., Any]) -> None:
    """The handler may be anything that can be called, and may have removed itself."""
    counted: list[str] = []
    signal.signal(SIGNAL, handler)
    with pytest.raises(TimeLimitError), Shield(counted.append)("here"):
        sorted([2, 1], key=lambda _: signal.raise_signal(SIGNAL))
    signal.signal(SIGNAL, handler)
    with pytest.raises(TimeLimitError), taking(counted):
        signal.raise_signal(SIGNAL)
    assert counted == []


def test_a_fault_is_no_interrupt_while_a_handler_is_installed() -> None:
    """Whatever its class, and although its frames have arguments."""
    signal.signal(SIGNAL, over)
    counted: list[str] = []

    def fault(number: int, frame: object) -> None:
        raise TimeLimitError(number, frame)

    for _ in range(2):
        with Shield(counted.append)("here"):
            fault(1, None)
    with Shield(counted.append)("here"):
        [].index(1)
    assert counted == ["here"] * 3


class OwnEnd(BaseException):
    """Neither an ``Exception`` nor one of Python's."""


def end_by(what: str) -> None:
    """End a program in several ways."""
    if what == "sys.exit":
        sys.exit(3)
    if what == "exit":
        raise SystemExit(3)
    if what == "interrupt":
        raise KeyboardInterrupt
    if what == "own":
        raise OwnEnd
    if what == "ctrl-c":
        signal.raise_signal(signal.SIGINT)
    if what == "handler":
        signal.raise_signal(SIGNAL)
    if what == "thread":
        end_thread()


def end_thread() -> None:
    """Do what another thread does to end this one."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(SystemExit))


class UnprintableError(Exception):
    """An error that ends the program when it is printed."""

    def __str__(self) -> str:
        end_by(self.args[0])
        return ""


class Argument:
    """An argument of an error, with the same fault."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __repr__(self) -> str:
        end_by(self.what)
        return ""


def failing(error: Exception) -> None:
    """A tool that fails."""
    raise error


@pytest.mark.parametrize("what", ["sys.exit", "exit", "interrupt", "own"])
@pytest.mark.parametrize("make", [UnprintableError, lambda what: ValueError(Argument(what), 1)])
def test_an_error_that_cannot_be_printed_is_the_one_that_the_program_gets(
    what: str, make: Callable[[str], Exception]
) -> None:
    """Whatever its ``__str__`` or ``__repr__`` raises: the program has not printed it."""
    error = make(what)
    with guarded(), loopguard.turn(), pytest.raises(type(error)) as raised:
        loopguard.call("fail", {}, lambda: failing(error))
    assert raised.value is error


@pytest.mark.parametrize(
    ("what", "arrives"), [("ctrl-c", KeyboardInterrupt), ("handler", SystemExit), ("thread", SystemExit)]
)
def test_what_ends_a_program_from_outside_arrives_while_an_error_is_printed(
    what: str, arrives: type[BaseException]
) -> None:
    """Ctrl-C, the exit of a signal handler, and the end of a thread that another one wants."""

    def end(*_: object) -> None:
        raise SystemExit

    signal.signal(SIGNAL, end)
    with guarded(), loopguard.turn(), pytest.raises(arrives):
        loopguard.call("fail", {}, lambda: failing(UnprintableError(what)))


INJECTED = 40


@pytest.fixture
def _without_sdk() -> Iterator[None]:
    active_runtime.put(Runtime(tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider()))
    gc.disable()  # Python drops an exception that strikes in a callback of the collector
    yield
    gc.enable()
    active_runtime.put(None)


@pytest.mark.usefixtures("_without_sdk")
def test_an_injected_exception_reaches_a_thread_that_makes_guarded_calls() -> None:
    """RQ and others end the work of a thread by an exception of their own class, at any instruction."""
    arrived: list[BaseException] = []
    at_work = threading.Semaphore(0)

    def read_file(path: int, part: object) -> str:
        if path == 0:
            at_work.release()
        return "text"

    def work() -> None:
        while len(arrived) < INJECTED:
            try:
                with loopguard.turn():
                    for number in itertools.count():
                        loopguard.call("read_file", {"path": number, "part": (1, 2)}, read_file)
            except TimeLimitError as error:  # noqa: PERF203 - each round ends with one
                arrived.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    for number in range(INJECTED):
        assert at_work.acquire(timeout=30), f"{number} were injected, {len(arrived)} arrived"
        threading.Event().wait(number % 9 / 1_000)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(TimeLimitError))
    thread.join(30)
    assert len(arrived) == INJECTED


def test_an_injected_exception_is_told_from_faults_by_its_class_and_place() -> None:
    """A class of the standard library, a ``raise``, and a frame of other code prove a fault, or nothing."""
    for error in (ValueError(), TimeLimitError(), json.JSONDecodeError("no", "", 0)):
        with Shield()("here"):
            raise error
        assert not is_interrupt(error)
