"""Count trips over time, by mode and decision, in bins of equal width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BINS = 60


def binned(
    places: Sequence[float], modes: Sequence[int], codes: Sequence[int], ends: tuple[float, float]
) -> dict[str, Any]:
    """Count the trips in each bin.

    ``places`` are times, or positions in the order of calls. ``ends`` are the first and the last of all calls.
    """
    start, last = ends if places else (0.0, 0.0)
    width = ((last - start) or 1.0) / MOST_BINS
    rows: dict[tuple[int, int], list[int]] = {}
    for place, mode, code in zip(places, modes, codes, strict=True):
        row = rows.setdefault((mode, code), [0] * MOST_BINS)
        row[min(int((place - start) / width), MOST_BINS - 1)] += 1
    return {"start": start, "width": width, "rows": [[*key, row] for key, row in sorted(rows.items())]}
