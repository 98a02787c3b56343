"""All families; to import it registers them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from benchmarks.exam import anew_stuck, anew_working, stuck_elsewhere, stuck_in_code, working_elsewhere, working_in_code
from benchmarks.exam.trace import FAMILIES, PACE, trace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.exam.play import Row
    from benchmarks.exam.trace import Family, Trace


def _of(*modules: object) -> dict[str, Family]:
    names = {getattr(module, "__name__", "") for module in modules}
    return {name: family for name, family in FAMILIES.items() if family.draw.__module__ in names}


ALL = _of(stuck_in_code, stuck_elsewhere, working_in_code, working_elsewhere)
"""The families whose outcomes were looked at while the rule was made."""
ANEW = _of(anew_stuck, anew_working)
"""The families that were drawn anew, when much had been corrected."""
KEPT = frozenset(name for name in ANEW if int(hashlib.sha256(name.encode()).hexdigest(), 16) % 3 == 0)
"""A third of those, which nobody looks at while the rule is made: only their totals count."""


def draw(
    namings: Iterable[str],
    seeds: Iterable[int],
    kinds: Iterable[str] = ALL,
    pace: tuple[float, float] = PACE,
) -> list[Trace]:
    """Draw a trace of each of these families under each naming from each seed."""
    return [trace(name, naming, seed, pace) for naming in namings for name in kinds for seed in seeds]


def parted(found: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Part the rows of families that may be looked at from those of the kept ones."""
    seen: list[Row] = []
    kept: list[Row] = []
    for row in found:
        (kept if row.family.name in KEPT else seen).append(row)
    return seen, kept
