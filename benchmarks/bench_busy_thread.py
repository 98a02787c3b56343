"""Measure calls while another thread is busy: python -m benchmarks.bench_busy_thread [--quick].

Another thread takes the interpreter lock whenever a call gives it up, and keeps it for 5 ms. On a busy machine the
system takes the processor from a call, too. So the calls that took over 1 ms by the clock are counted twice: all of
them, and those in which the thread gave up the processor to wait for something, which are ours.
"""

from __future__ import annotations

import gc
import resource
import sys
import threading
import time
from typing import TYPE_CHECKING

from benchmarks.harness import Goal, Row, Section, main
from benchmarks.workload import TOOL, arguments, result
from otel_loopguard.engine.words import Outcome, ToolCall
from otel_loopguard.guard.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = 120
SIZES = (500, 5_000, 20_000, 50_000)
SLOW_US = 1_000
ABOUT = (
    "`begin` and `end` beside a thread that computes without a pause, by the clock. Counted are "
    "the calls that took over 1 ms because they waited for the interpreter lock, and not those that the system "
    "interrupted."
)


class BusyThread:
    """A thread that never waits."""

    def __init__(self) -> None:
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()

    def _run(self) -> None:
        while not self._ended:
            sum(range(100))


def waits() -> int:
    """Return how often this thread has given up the processor of itself, as it does to wait for a lock."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def measured(size: int) -> list[tuple[float, bool]]:
    """Return the microseconds of each call with a new result of that size, and whether it waited.

    Python takes the lock from any thread that has had it for 5 ms. Therefore each call begins with a lock just taken.
    """
    made = [(ToolCall(TOOL, arguments(), None, (TOOL,)), Outcome(result(size))) for _ in range(CALLS)]
    turn, found = Guard().turn(), []
    for call, outcome in made:
        time.sleep(0)
        before, started = waits(), time.perf_counter()
        turn.begin(call)
        turn.end(call, outcome)
        found.append(((time.perf_counter() - started) * 1e6, waits() > before))
    return found


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure each size in each round."""
    rows: list[Row] = []
    gc.disable()
    for size in SIZES:
        rounds = []
        for _ in range(3 if quick else 10):
            with BusyThread():
                rounds.append(measured(size))
        calls = [call for one in rounds for call in one]
        slow = [waited for took, waited in calls if took > SLOW_US]
        note = f"of {len(calls)}; {len(slow)} with those that the system interrupted"
        rows.append(Row(f"result of {size:,} B", [took for took, _ in calls], "us, clock"))
        rows.append(Row(f"result of {size:,} B, calls over 1 ms", [sum(slow)], "calls", goal=Goal(0), note=note))
    gc.enable()
    yield Section("Beside a busy thread", ABOUT, rows)


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
