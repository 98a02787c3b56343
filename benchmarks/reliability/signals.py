"""Let signals strike at random: time limits, handlers that call tools, and Ctrl-C."""

from __future__ import annotations

import logging
import signal
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Any

import otel_loopguard as loopguard
from benchmarks.reliability.result import Row
from otel_loopguard.testing import guarded
from otel_loopguard.turns.scope import bind, current_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

TITLE = "Signals"
ABOUT = """An alarm strikes after a random time while an agent calls tools. *Time limits*: its handler raises an
exception, as Celery's soft limit does. *Broken*: the exception did not arrive, and the note does not count it. *Tools
in the handler*: it calls a guarded function. *Broken*: it did not end."""
LIMITS, HANDLERS, INTERRUPTS = 3_000, 3_000, 3_000
LONGEST_RUN = 60
"""Seconds after which a run counts as hung."""


class SoftTimeLimit(Exception):  # noqa: N818 - as Celery's SoftTimeLimitExceeded
    """The tool took too long."""


def measure(seed: int, scale: float) -> Iterator[Row]:
    """Strike in all three ways."""
    random = Random(seed)
    with guarded() as recording, _Elsewhere() as elsewhere:
        recording._spans.shutdown()  # it has a lock that its own thread waits for
        for label, seconds in (("no time", 0.0), ("0.5 ms", 0.0005), ("5 ms", 0.005)):
            rounds = max(20, int(LIMITS * scale / (1 + seconds * 1000)))
            lost = sum(not _struck(random, seconds, SoftTimeLimit) for _ in range(rounds))
            yield Row(f"time limits, tools that take {label}", rounds, lost - elsewhere.count(), elsewhere.note)
        rounds = max(20, int(INTERRUPTS * scale))
        lost = left = unguarded = 0
        for _ in range(rounds):
            lost += not _struck(random, 0.0, KeyboardInterrupt)
            left += current_scope() is not None
            unguarded += not _stops_a_loop()
            bind(None)
        yield Row("Ctrl-C: did not arrive", rounds, lost - elsewhere.count(), elsewhere.note)
        note = f"{left} turns stayed bound: no code can protect the first instruction of their exit" if left else ""
        yield Row("Ctrl-C: the next loop is not stopped", rounds, unguarded, note)
        rounds = max(20, int(HANDLERS * scale))
        yield Row("tools in the handler", rounds, _handled(random, rounds))


class _Elsewhere(logging.Handler):
    """Counts exceptions that Python drops in a finaliser, and those that OpenTelemetry catches in its own code."""

    def __init__(self) -> None:
        super().__init__()
        self._dropped = self._caught = 0
        self._last_resort = logging.lastResort
        self.note = ""

    def __enter__(self) -> Self:
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self)
        logger.propagate = False
        for name in [name for name in logging.root.manager.loggerDict if name.startswith("opentelemetry.")]:
            logging.getLogger(name).filters.clear()  # the SDK drops a record that repeats its last one
        logging.lastResort = logging.NullHandler()  # a handler that writes drops an exception
        sys.unraisablehook = self._unraisable
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("opentelemetry").removeHandler(self)
        logging.lastResort = self._last_resort
        sys.unraisablehook = sys.__unraisablehook__

    def _unraisable(self, unraisable: sys.UnraisableHookArgs) -> None:
        self._dropped += isinstance(unraisable.exc_value, (SoftTimeLimit, KeyboardInterrupt))

    def emit(self, record: logging.LogRecord) -> None:
        """Count the exception of a log record."""
        error = record.exc_info[1] if record.exc_info else None
        self._caught += isinstance(error, (SoftTimeLimit, KeyboardInterrupt))

    def count(self) -> int:
        """Return the number since the last time."""
        count, self.note = self._dropped + self._caught, ""
        if count:
            self.note = f"{self._dropped} more in a finaliser, {self._caught} more caught by OpenTelemetry's SDK"
        self._dropped = self._caught = 0
        return count


def _agent(seconds: float, until: Callable[[], bool]) -> None:
    """Call tools in turns, some of them again and again."""
    number = 0
    while not until():
        with loopguard.turn():
            for step in range(8):
                loopguard.call("look", {"n": number + step // 4}, _tool, known_tools=["look"])
                if seconds:
                    time.sleep(seconds)
        number += 8


def _tool(n: int) -> str:
    return f"result {n}"


def _struck(random: Random, seconds: float, error: type[BaseException]) -> bool:
    """Return True if an exception that a handler raises reaches the program."""
    fired = [False]

    def strike(*_: Any) -> None:
        fired[0] = True
        raise error

    before = signal.signal(signal.SIGALRM, strike)
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0002, 0.004))
        deadline = time.monotonic() + LONGEST_RUN
        _agent(seconds, lambda: fired[0] or time.monotonic() > deadline)
    except error:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return False


def _stops_a_loop() -> bool:
    with loopguard.turn():
        read = [
            loopguard.call("read_file", {"path": "a"}, lambda path: f"the text of {path}", known_tools=["read_file"])
            for _ in range(5)
        ]
    return "tool_loop_detected" in read[-1]


def _handled(random: Random, rounds: int) -> int:
    """Return the number of handlers that did not end; each calls guarded functions in the interrupted thread."""
    begun, ended = [0], [0]

    def strike(*_: Any) -> None:
        begun[0] += 1
        loopguard.call("save_state", {"n": begun[0]}, _tool)
        with loopguard.turn():
            loopguard.call("save_state", {"n": begun[0]}, _tool)
        ended[0] += 1
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0002, 0.004))

    before = signal.signal(signal.SIGALRM, strike)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        deadline = time.monotonic() + LONGEST_RUN
        _agent(0.0, lambda: begun[0] >= rounds or time.monotonic() > deadline)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # first: the handler sets the timer
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return begun[0] - ended[0]
