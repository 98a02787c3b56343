"""Print the slowest values in milliseconds of one ``begin`` or ``end``: python -m benchmarks.hostile [WORD ...].

With words, only values and places whose names hold one of them are measured. The exit status is 1 if a value of up to
100 KB takes over 5 ms, or any other value over 50 ms.
"""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.hostile import texts, values
from benchmarks.hostile.places import PLACES, play, turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SMALL_MS, LARGE_MS = 5.0, 50.0
LONGEST_SECONDS = 20
SHOWN = 40
READ_PLACES = ("an argument", "a command", "SQL", "a result", "an error about itself", "an unknown name")
LARGE_PLACES = ("arguments", "an argument of a failure", "an answer to itself", "an exception")


class TooSlowError(BaseException):
    """A value took longer than the longest time; no ``except Exception`` of the guard stops it."""


def corpus() -> Iterator[tuple[str, Callable[[int], Any], float, Iterable[str]]]:
    """Yield name, values, budget and places."""
    for name, make in (texts.texts(4_000) | texts.fields_of_json(300)).items():
        yield name, make, SMALL_MS, READ_PLACES
    for name, make in (_units(60_000) | texts.fields_of_json(4_000) | texts.fields_of_json(60_000)).items():
        yield name, make, SMALL_MS, PLACES
    for name, make in values.small(100_000).items():
        yield name, make, SMALL_MS, PLACES
    for name, make in (_units(1_000_000) | texts.fields_of_json(1_000_000)).items():
        yield name, make, LARGE_MS, PLACES
    for name, make in _units(10_000_000).items():
        yield name, make, LARGE_MS, READ_PLACES
    for name, make in values.large().items():
        yield name, make, LARGE_MS, LARGE_PLACES


def _units(size: int) -> dict[str, Callable[[int], str]]:
    return {f"{size:,} {name}": texts.repeated(unit, size) for name, unit in texts.UNITS.items()}


def slowest(make: Callable[[int], Any], place: str) -> float:
    """Return the milliseconds of processor time of the slowest ``begin`` or ``end``."""
    worst = 0.0

    def timed(step: Callable[[], Any]) -> Any:
        nonlocal worst
        started = time.thread_time()
        try:
            return step()
        finally:
            worst = max(worst, (time.thread_time() - started) * 1e3)

    gc.collect()
    gc.disable()
    signal.alarm(LONGEST_SECONDS)
    try:
        play(make, PLACES[place], turn(), timed)
    except TooSlowError:
        worst = LONGEST_SECONDS * 1e3
    finally:
        signal.alarm(0)
        gc.enable()
    return worst


def too_slow(*_: object) -> None:
    """Stop the value that is measured."""
    raise TooSlowError


class Case(NamedTuple):
    """A value in a place, and its budget in milliseconds."""

    label: str
    make: Callable[[int], Any]
    place: str
    budget: float


def cases() -> Iterator[Case]:
    """Yield each value of the corpus in each of its places that can have it."""
    for name, make, budget, places in corpus():
        for place in places:
            if not PLACES[place].texts_only or isinstance(make(0), str):
                yield Case(f"{name} | {place}", make, place, LARGE_MS if PLACES[place].times > 1 else budget)


def least(case: Case) -> float:
    """Return the milliseconds of a case: the least of three measurements if the first is above half of the budget."""
    took = slowest(case.make, case.place)
    if case.budget / 2 < took < LONGEST_SECONDS * 1e3:
        took = min(took, slowest(case.make, case.place), slowest(case.make, case.place))
    return took


def main(words: list[str]) -> int:
    """Measure, and print the slowest. All values take over a quarter of an hour; Ctrl-C prints those so far."""
    signal.signal(signal.SIGALRM, too_slow)
    found: list[tuple[float, float, str]] = []
    with contextlib.suppress(KeyboardInterrupt):
        chosen = (case for case in cases() if not words or any(word in case.label for word in words))
        found.extend((case.budget, least(case), case.label) for case in chosen)
    for budget in (SMALL_MS, LARGE_MS):
        times = sorted(took for one, took, _ in found if one == budget) or [0.0]
        middle, most = times[len(times) // 2], times[len(times) * 99 // 100]
        print(f"budget {budget:g} ms: {len(times):,} values in places, median {middle:.2f} ms, ", end="")
        print(f"99th percentile {most:.2f} ms, slowest {times[-1]:.2f} ms")
    found.sort(key=lambda one: one[1] / one[0], reverse=True)
    over = sum(took > budget for budget, took, _ in found)
    print(f"{over:,} over their budget")
    for budget, took, label in found[:SHOWN]:
        print(f"{took:10.2f} ms {took / budget:8.2f} x budget   {label}")
    return bool(over)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
