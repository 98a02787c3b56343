"""Give values made to be slow to the guard, in every place that a value can have, and measure the time."""

from __future__ import annotations

import gc
import signal
import time
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.reliability.hostile import texts, values
from benchmarks.reliability.hostile.places import PLACES, play, turn
from benchmarks.reliability.result import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TITLE = "Hostile values"
ABOUT = """Texts, containers, numbers and objects that are slow to read, as arguments, results, errors, names,
commands and queries, in milliseconds of the processor for one `begin` or `end`. *Broken*: over 5 ms for a value of
up to 100 KB, or over 50 ms for any other."""

SMALL_MS, LARGE_MS = 5.0, 50.0
SHARE = 0.25
"""All values take over a quarter of an hour."""
LONGEST_SECONDS = 20
READ_PLACES = ("an argument", "a command", "SQL", "a result", "an error about itself", "an unknown name")
LARGE_PLACES = ("arguments", "an argument of a failure", "an answer to itself", "an exception")


class TooSlowError(BaseException):
    """A value took longer than the longest time; no ``except Exception`` of the guard stops it."""


class Case(NamedTuple):
    """A value in a place, and its budget in milliseconds."""

    label: str
    make: Callable[[int], Any]
    place: str
    budget: float


def measure(seed: int, scale: float) -> Iterator[Row]:
    """Measure the values, or a share of them that the seed draws."""
    signal.signal(signal.SIGALRM, _too_slow)
    drawn = [case for case in _cases() if Random(f"{seed} {case.label}").random() < SHARE * scale]
    for budget, label in ((SMALL_MS, "values of up to 100 KB"), (LARGE_MS, "larger values")):
        took = sorted(((_least(case), case.label) for case in drawn if case.budget == budget), reverse=True)
        note = ""
        if took:
            (middle, _), (most, which) = took[len(took) // 2], took[0]
            note = f"median {middle:.2f} ms, slowest {most:.1f} ms: {which.replace(' | ', ', as ')}"
        yield Row(label, len(took), sum(milliseconds > budget for milliseconds, _ in took), note)


def _cases() -> Iterator[Case]:
    """Yield each value of the corpus in each of its places that can have it."""
    for name, make, budget, places in _corpus():
        for place in places:
            if not PLACES[place].texts_only or isinstance(make(0), str):
                yield Case(f"{name} | {place}", make, place, LARGE_MS if PLACES[place].times > 1 else budget)


def _corpus() -> Iterator[tuple[str, Callable[[int], Any], float, Iterable[str]]]:
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


def _least(case: Case) -> float:
    """Return the milliseconds of a case: the least of three measurements if the first is above half of the budget."""
    took = _slowest(case)
    if case.budget / 2 < took < LONGEST_SECONDS * 1e3:
        took = min(took, _slowest(case), _slowest(case))
    return took


def _slowest(case: Case) -> float:
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
        play(case.make, PLACES[case.place], turn(), timed)
    except TooSlowError:
        worst = LONGEST_SECONDS * 1e3
    finally:
        signal.alarm(0)
        gc.enable()
    return worst


def _too_slow(*_: object) -> None:
    raise TooSlowError
