"""Same, progress, alike or different: how a result compares with that of the last run of the same call.

Lazy: a call that never repeats costs one hash of its result. The first result that differs is *different*
without a further look (the benefit of the doubt); only from then on is the call's face kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.core.model import Kind, Sameness
from otel_loopguard.core.values.masking import masked_views

if TYPE_CHECKING:
    from otel_loopguard.core.values.fingerprint import Fingerprinter
    from otel_loopguard.core.values.masking import MaskedView


class DetailedFingerprints:
    """A result's dearer fingerprints, made when they are first asked for; the numbers stay in the process."""

    __slots__ = ("changed", "directions", "quiet")

    def __init__(self, quiet: ViewFingerprints, changed: ViewFingerprints) -> None:
        self.quiet = quiet
        """Durations masked."""
        self.changed = changed
        """Durations kept: after a change they may be what was measured."""
        self.directions: tuple[int, ...] | None = None
        """Which way each number went last; None where that is open."""


class ViewFingerprints(NamedTuple):
    """One face of a result, hashed."""

    masked: int | None
    shape: int
    numbers: tuple[float, ...]
    tells_rest: bool
    tells_part: bool


def detailed_fingerprints(
    data: bytes, fingerprinter: Fingerprinter, *, volatile_keys: tuple[str, ...], mask: bool
) -> DetailedFingerprints:
    """Make the dearer fingerprints of a result; ``volatile_keys`` and ``mask`` as in ``masked_views``."""
    seen = masked_views(data, volatile_keys=volatile_keys, mask=mask)
    quiet = _hashed(seen.quiet, seen.middle, fingerprinter)
    return DetailedFingerprints(
        quiet, quiet if seen.changed is seen.quiet else _hashed(seen.changed, seen.middle, fingerprinter)
    )


def _hashed(face: MaskedView, middle: bytes, fingerprinter: Fingerprinter) -> ViewFingerprints:
    masked = fingerprinter.of(face.masked.encode("utf-8", "replace") + middle) if face.masked else None
    shape = fingerprinter.of(face.shape.encode("utf-8", "replace") + middle)
    return ViewFingerprints(masked, shape, face.numbers, face.tells_rest, face.tells_part)


def compare(
    last: DetailedFingerprints, now: DetailedFingerprints, kind: Kind, *, moves_cursor: bool, changed: bool
) -> Sameness:
    """Compare ``now`` with ``last``, whose bytes differ, and keep the directions of its numbers in ``now``.

    ``moves_cursor``: the tool's numbers say where its cursor is. ``changed``: something changed between the two runs.
    """
    before, after = (last.changed, now.changed) if changed else (last.quiet, now.quiet)
    if before.masked is not None and before.masked == after.masked:
        now.directions = last.directions
        return Sameness.SAME
    if before.shape != after.shape:
        return Sameness.DIFFERENT
    counts = (kind is Kind.SHELL and after.tells_rest) or (kind is Kind.WRITE and after.tells_part)
    # A command that counts (`export.sh`: "1200 of 5000") progresses, too, and so does a write that is part of the way.
    may_progress = moves_cursor or counts or kind.may_progress
    if may_progress and _goes_on(last, now, before.numbers, after.numbers):
        return Sameness.PROGRESS
    return Sameness.ALIKE


def _goes_on(
    last: DetailedFingerprints, now: DetailedFingerprints, before: tuple[float, ...], after: tuple[float, ...]
) -> bool:
    """Whether each number that moves keeps its own direction; a reversal starts the directions anew."""
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
