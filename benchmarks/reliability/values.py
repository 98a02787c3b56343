"""Measure the time of hostile values: those of the corpus that `python -m benchmarks.hostile` measures."""

from __future__ import annotations

import signal
from random import Random
from typing import TYPE_CHECKING

from benchmarks.hostile.__main__ import LARGE_MS, SMALL_MS, cases, least, too_slow
from benchmarks.reliability.result import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

TITLE = "Hostile values"
ABOUT = """Texts, containers, numbers and objects that are slow to read, as arguments, results, errors, names,
commands and queries, in milliseconds of the processor for one `begin` or `end`. *Broken*: over 5 ms for a value of
up to 100 KB, or over 50 ms for any other."""

SHARE = 0.25
"""All values take over a quarter of an hour."""


def measure(seed: int, scale: float) -> Iterator[Row]:
    """Measure the values, or a share of them that the seed draws."""
    signal.signal(signal.SIGALRM, too_slow)
    drawn = [case for case in cases() if Random(f"{seed} {case.label}").random() < SHARE * scale]
    for budget, label in ((SMALL_MS, "values of up to 100 KB"), (LARGE_MS, "larger values")):
        took = sorted(((least(case), case.label) for case in drawn if case.budget == budget), reverse=True)
        note = ""
        if took:
            (middle, _), (most, which) = took[len(took) // 2], took[0]
            note = f"median {middle:.2f} ms, slowest {most:.1f} ms: {which.replace(' | ', ', as ')}"
        yield Row(label, len(took), sum(milliseconds > budget for milliseconds, _ in took), note)
