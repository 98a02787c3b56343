"""All families; to import it registers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.exam import stuck_elsewhere, stuck_in_code, working_elsewhere, working_in_code
from benchmarks.exam.trace import FAMILIES, trace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.exam.trace import Trace

MODULES = (stuck_in_code, stuck_elsewhere, working_in_code, working_elsewhere)
ALL = FAMILIES


def draw(namings: Iterable[str], seeds: Iterable[int]) -> list[Trace]:
    """Draw a trace of each family under each naming from each seed."""
    return [trace(name, naming, seed) for naming in namings for name in ALL for seed in seeds]
