"""Make each function of the package raise, one at a time, in each framework that is installed here.

A run that works and a run that loops are held against the same runs without the guard. Then the fault is taken away,
and a loop must be stopped again.
"""

from __future__ import annotations

import logging
import signal
from collections import Counter
from contextlib import contextmanager
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks.reliability.result import Row
from otel_loopguard.testing import Ask, Toolbox, guarded
from otel_loopguard.turns.scope import bind, current_scope
from tests.instrumentation.fault_injection import EXCUSED, boom, broken, called, ours, out_of_memory, too_deep
from tests.scripted import installed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from otel_loopguard.testing import Driver, Transcript

    Drivers = Mapping[str, Driver]

TITLE = "Faults of this package"
ABOUT = """Each function of the package that a run calls raises `ArithmeticError`, `RecursionError` or `MemoryError`,
one at a time. *Broken*: the model reads anything else than the tool's result, a sentence after it, or a refusal; the
program gets another exception than without the guard; a value is logged; or a later loop is not stopped."""
EVERY_ENVIRONMENT = True
FAULTS = (boom, too_deep, out_of_memory)
DRIVERS_EACH = 3
LONGEST_RUN = 30
"""Seconds after which a run counts as hung."""


def measure(seed: int, scale: float) -> Iterator[Row]:
    """Break every function under drivers that the seed draws."""
    drivers = ((name, import_module(f"tests.scripted.{name.replace('-', '_')}").DRIVERS) for name in installed())
    yield from broken_under(drivers, Random(seed), scale)


def broken_under(ways: Iterable[tuple[str, Drivers]], random: Random, scale: float, *, loop: int = 5) -> Iterator[Row]:
    """Break the functions that each of these ways calls. ``loop`` is the number of calls after which a loop is over."""
    logged = Logged()
    logging.getLogger().addHandler(logged)
    for way, drivers in ways:
        tried, failures, functions = 0, Counter[str](), set[str]()
        for name in random.sample(sorted(drivers), min(DRIVERS_EACH, len(drivers))):
            paths = (f"{random.getrandbits(40):x}.txt", f"notes {random.random()}.md")
            for path in paths if scale >= 1 else paths[:1]:
                for steps in (_working(path), _looping(path, loop)):
                    labels = sorted(_called(drivers[name], steps) - set(EXCUSED))
                    functions.update(labels)
                    for label in labels if scale >= 1 else random.sample(labels, max(1, int(len(labels) * scale))):
                        fault = random.choice(FAULTS)
                        tried += 1
                        problems = _problems(drivers[name], steps, label, fault, loop=loop)
                        failures.update(f"{label} ({problem})" for problem in problems)
        yield Row(
            f"{way}: {len(functions)} functions",
            tried,
            failures.total(),
            "; ".join(f"{what} x{times}" for what, times in failures.most_common(5)),
        )
    yield Row("the text of an exception in the log", logged.records, logged.leaks)


def _working(path: str) -> list[list[Ask]]:
    return [[Ask("read_file", {"path": f"{number} {path}"})] for number in range(3)]


def _looping(path: str, times: int = 5) -> list[list[Ask]]:
    return [[Ask("read_file", {"path": path})]] * times


def _called(driver: Driver, steps: Sequence[Sequence[Ask]]) -> set[str]:
    return called(lambda: driver(Toolbox().functions(), steps))


def _problems(
    driver: Driver, steps: Sequence[Sequence[Ask]], label: str, fault: Any, *, loop: int = 5
) -> Iterator[str]:
    with guarded():
        with broken(ours()[label], fault):
            try:
                with _limit():
                    transcript = driver(Toolbox().functions(), steps)
            except BaseException as error:  # noqa: BLE001 - the error is the finding
                yield type(error).__name__
            else:
                if not _as_without(transcript, steps):
                    yield f"{transcript.error!r} {transcript.read}"[:120]
        if current_scope() is not None:
            yield "left a scope"
            bind(None)
        with _limit():
            transcript = driver(Toolbox().functions(), _looping("later.txt", loop))
        if not (transcript.refused or transcript.ended):
            yield "a later loop is not stopped"


def _as_without(transcript: Transcript, steps: Sequence[Sequence[Ask]]) -> bool:
    """Return True if the model read what it reads without the guard, apart from sentences and refusals.

    A loop whose tools the program runs itself may end before its last step.
    """
    want = [f"the text of {asks[0].arguments['path']}" for asks in steps]
    if transcript.ended and steps[0] == steps[1]:
        want = want[: len(transcript.read)]
    return (
        transcript.error is None
        and len(transcript.read) == len(want)
        and all(text in read or "tool_loop_detected" in read for read, text in zip(transcript.read, want, strict=True))
    )


@contextmanager
def _limit() -> Iterator[None]:
    """Raise an error in a run that hangs."""

    def strike(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, strike)
    signal.alarm(LONGEST_RUN)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Logged(logging.Handler):
    """Counts log records, and those that hold the text of the injected exception."""

    records = leaks = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.records += 1
        self.leaks += "SECRET" in self.format(record)  # with the traceback, which has the text of the exception
