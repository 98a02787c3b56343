"""Print the slowest values in milliseconds of one ``begin`` or ``end``: python -m benchmarks.hostile [WORD ...].

With words, only values and places whose names hold one of them are measured. The exit status is 1 if a value of up to
100 KB takes over 5 ms, or any other value over 50 ms.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

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


def main(words: list[str]) -> int:
    """Measure each value in each place; those above half of their budget three times, of which the least counts."""
    signal.signal(signal.SIGALRM, too_slow)
    found: list[tuple[float, float, str]] = []
    budgets = {SMALL_MS: [0.0], LARGE_MS: [0.0]}
    for name, make, budget_of_value, places in corpus():
        for place in places:
            entry = PLACES[place]
            label = f"{name} | {place}"
            if words and not any(word in label for word in words):
                continue
            if entry.texts_only and not isinstance(make(0), str):
                continue
            budget = LARGE_MS if entry.times > 1 else budget_of_value
            took = slowest(make, place)
            if budget / 2 < took < LONGEST_SECONDS * 1e3:
                took = min(took, slowest(make, place), slowest(make, place))
            found.append((took / budget, took, label))
            budgets[budget].append(took)
    found.sort(reverse=True)
    over = sum(share > 1 for share, _, _ in found)
    for budget, unsorted in budgets.items():
        times = sorted(unsorted)
        print(
            f"budget {budget:g} ms: {len(times):,} values in places, median {times[len(times) // 2]:.2f} ms, ", end=""
        )
        print(f"99th percentile {times[len(times) * 99 // 100]:.2f} ms, slowest {times[-1]:.2f} ms")
    print(f"{over:,} over their budget")
    for share, took, label in found[:SHOWN]:
        print(f"{took:10.2f} ms {share:8.2f} x budget   {label}")
    return bool(over)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
