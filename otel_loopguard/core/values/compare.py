"""Compare a result with that of the last run of the same call: same, progress, alike or different.

A call that never repeats costs one hash of its result. The first result that differs is *different*, without a closer
look. From then on the call's detailed fingerprints are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.core.model import Kind, Sameness
from otel_loopguard.core.values.masking import masked_views

if TYPE_CHECKING:
    from otel_loopguard.core.values.fingerprint import Fingerprinter
    from otel_loopguard.core.values.masking import MaskedView


class ViewFingerprints(NamedTuple):
    """The fingerprints of one masked view of a result."""

    masked: int | None
    shape: int
    numbers: tuple[float, ...]
    has_total: bool
    has_fraction: bool


class DetailedFingerprints:
    """The fingerprints of both views of a result. Its numbers never leave the process."""

    __slots__ = ("directions", "with_durations", "without_durations")

    def __init__(self, without_durations: ViewFingerprints, with_durations: ViewFingerprints) -> None:
        self.without_durations = without_durations
        self.with_durations = with_durations
        """For a comparison after a change, when a duration may be the measured value."""
        self.directions: tuple[int, ...] | None = None
        """The last direction of each number; None before any comparison."""


def detailed_fingerprints(
    data: bytes, fingerprinter: Fingerprinter, *, volatile_keys: tuple[str, ...], mask: bool
) -> DetailedFingerprints:
    """Fingerprint the views of a result; ``volatile_keys`` and ``mask`` as in ``masked_views``."""
    views = masked_views(data, volatile_keys=volatile_keys, mask=mask)
    without = _fingerprints(views.without_durations, views.middle, fingerprinter)
    if views.with_durations is views.without_durations:
        return DetailedFingerprints(without, without)
    return DetailedFingerprints(without, _fingerprints(views.with_durations, views.middle, fingerprinter))


def _fingerprints(view: MaskedView, middle: bytes, fingerprinter: Fingerprinter) -> ViewFingerprints:
    masked = fingerprinter.of(view.masked.encode("utf-8", "replace") + middle) if view.masked else None
    shape = fingerprinter.of(view.shape.encode("utf-8", "replace") + middle)
    return ViewFingerprints(masked, shape, view.numbers, view.has_total, view.has_fraction)


def compare(
    last: DetailedFingerprints, now: DetailedFingerprints, kind: Kind, *, moves_cursor: bool, changed: bool
) -> Sameness:
    """Compare ``now`` with ``last``, whose bytes differ, and keep the directions of its numbers in ``now``.

    ``moves_cursor``: the tool's numbers are a cursor's position. ``changed``: something changed between the two runs.
    """
    before, after = (
        (last.with_durations, now.with_durations) if changed else (last.without_durations, now.without_durations)
    )
    if before.masked is not None and before.masked == after.masked:
        now.directions = last.directions
        return Sameness.SAME
    if before.shape != after.shape:
        return Sameness.DIFFERENT
    # A command that counts (`export.sh`: "1200 of 5000") progresses, and so does a write that is part of the way.
    counts = (kind is Kind.SHELL and after.has_total) or (kind is Kind.WRITE and after.has_fraction)
    may_progress = moves_cursor or counts or kind.may_progress
    if may_progress and _keeps_direction(last, now, before.numbers, after.numbers):
        return Sameness.PROGRESS
    return Sameness.ALIKE


def _keeps_direction(
    last: DetailedFingerprints, now: DetailedFingerprints, before: tuple[float, ...], after: tuple[float, ...]
) -> bool:
    """Return True if a number moves, and each one that moves keeps its direction. A reversal resets the directions."""
    if len(before) != len(after):
        return False
    moves = tuple((b < a) - (b > a) for b, a in zip(before, after, strict=True))
    if not any(moves):
        return False
    known = last.directions if last.directions is not None and len(last.directions) == len(moves) else (0,) * len(moves)
    if any(move and was and move != was for move, was in zip(moves, known, strict=True)):
        return False
    now.directions = tuple(move or was for move, was in zip(moves, known, strict=True))
    return True
