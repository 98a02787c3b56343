"""Compare a result with that of the last run of the same call: same, progress, alike or different.

A call that never repeats costs one hash of its result. The first result that differs is *different*, without a closer
look. From then on the call's detailed fingerprints are kept.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.engine.values.masking import has_content, masked_views, without_codes, without_times
from otel_loopguard.engine.vocabulary import Kind, Sameness

if TYPE_CHECKING:
    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.engine.values.masking import MaskedView


class ViewFingerprints(NamedTuple):
    """The fingerprints of one masked view of a result; None for a part that is empty."""

    masked: int | None
    """Of the text with its ids and times masked."""
    shape: int
    """Of the text without the words that contain a digit."""
    numbers: array[float] | None
    """The numbers in those words, without those that name something; None if they are in another process."""
    nameless: int | None
    """Of the masked text without the numbers that name something."""
    has_total: bool
    """True if the text gives a part of a whole ("5 of 40") or a rest."""
    has_words: bool
    """True if something is left without the numbers."""
    values: int
    """Of all that may be news: the text without ids, codes and times, or, if nothing else is in it, without times."""


class Trend(NamedTuple):
    """The movement of each number over all comparisons, as long as the shape stays."""

    ways: tuple[int, ...]
    """The last direction of each number: 1 up, -1 down, 0 none yet, ``_NOISE`` to and fro."""
    turns: tuple[int, ...]
    """The number of times that each number changed its direction."""
    compared: int
    """The number of comparisons."""


_MOST_UNSEEN = 16
"""The number of comparisons of a call that count as progress although its numbers are in another process."""
_NOISE = 2
"""The way of a number that turns at least at every third comparison, such as a temperature: it shows no progress."""


class DetailedFingerprints:
    """The fingerprints of both views of a result. Its numbers never leave the process: ``to_list`` leaves them out."""

    __slots__ = ("is_error", "trend", "with_durations", "without_durations")

    def __init__(
        self, without_durations: ViewFingerprints, with_durations: ViewFingerprints, *, is_error: bool
    ) -> None:
        self.without_durations = without_durations
        self.with_durations = with_durations
        """For a comparison after a change, when a duration may be the measured value."""
        self.is_error = is_error
        self.trend: Trend | None = None
        """None before any comparison."""

    def to_list(self) -> list[Any]:
        """Return the fingerprints as plain values, without numbers."""
        views = [self.without_durations, self.with_durations]
        if self.with_durations is self.without_durations:
            views.pop()
        compared = 0 if self.trend is None else self.trend.compared
        return [self.is_error, compared, *map(_without_values, views)]

    @classmethod
    def from_list(cls, values: list[Any]) -> DetailedFingerprints:
        """Restore the fingerprints that ``to_list`` returned."""
        is_error, compared, *views = values
        read = [
            ViewFingerprints(masked, shape, None if numbers is None else array("d"), *rest)
            for masked, shape, numbers, *rest in views
        ]
        details = cls(read[0], read[-1], is_error=is_error)
        details.trend = Trend((), (), compared) if compared else None
        return details


def _without_values(view: ViewFingerprints) -> list[Any]:
    """Return a view as plain values. Its numbers are None, or ``()`` if it has none."""
    has_none = view.numbers is not None and not len(view.numbers)
    return [view.masked, view.shape, () if has_none else None, *view[3:]]


def detailed_fingerprints(
    data: bytes, fingerprinter: Fingerprinter, *, volatile_keys: tuple[str, ...], mask: bool, is_error: bool
) -> DetailedFingerprints:
    """Fingerprint the views of a result; ``volatile_keys`` and ``mask`` as in ``masked_views``."""
    views = masked_views(data, volatile_keys=volatile_keys, mask=mask)
    middle = fingerprinter.of(views.middle).to_bytes(8, "big") if views.middle else b""
    # A result that is nothing but ids and times: another id is another result, another time is none.
    bare = None if views.without_durations.masked else without_times(data)
    without = _fingerprints(views.without_durations, middle, fingerprinter, bare)
    if views.with_durations is views.without_durations:
        return DetailedFingerprints(without, without, is_error=is_error)
    with_durations = _fingerprints(views.with_durations, middle, fingerprinter, bare)
    return DetailedFingerprints(without, with_durations, is_error=is_error)


def _fingerprints(view: MaskedView, middle: bytes, fingerprinter: Fingerprinter, bare: str | None) -> ViewFingerprints:
    def of(text: str) -> int:
        return fingerprinter.of(text.encode("utf-8", "replace") + middle)

    masked = of(view.masked) if view.masked else None
    nameless = masked if view.nameless == view.masked else of(view.nameless) if view.nameless else None
    has_words = has_content(view.shape) is not None
    numbers = array("d", view.numbers)
    values = of(without_codes(view.nameless or view.masked) if bare is None else bare)
    return ViewFingerprints(masked, of(view.shape), numbers, nameless, view.has_total, has_words, values)


def compare(
    last: DetailedFingerprints, now: DetailedFingerprints, kind: Kind, *, moves_cursor: bool, changed: bool
) -> Sameness:
    """Compare the results ``last`` and ``now``, whose bytes differ. Keep the trend of the numbers in ``now``.

    ``moves_cursor``: the tool's numbers are a cursor's position. ``changed``: something changed between the two runs.
    """
    before, after = (
        (last.with_durations, now.with_durations) if changed else (last.without_durations, now.without_durations)
    )
    if last.is_error != now.is_error:
        return Sameness.DIFFERENT
    if before.masked is not None and before.masked == after.masked:
        now.trend = last.trend
        return Sameness.SAME
    has_numbers = after.numbers is None or len(after.numbers) > 0
    if before.shape != after.shape or (has_numbers and not after.has_words):
        return Sameness.DIFFERENT  # a result that is nothing but a number is that number
    names_only = before.nameless is not None and before.nameless == after.nameless
    if names_only and (kind is Kind.WRITE or kind is Kind.SHELL or now.is_error):  # done again, under another id
        return Sameness.SAME
    may_progress = moves_cursor or kind.may_progress or after.has_total  # "5 of 40 sent", whatever sends it
    return Sameness.PROGRESS if may_progress and _progresses(last, now, before, after) else Sameness.ALIKE


def _progresses(
    last: DetailedFingerprints, now: DetailedFingerprints, before: ViewFingerprints, after: ViewFingerprints
) -> bool:
    """Return True if a number moves on in its direction, and none turns for the first time."""
    trend = last.trend
    if before.numbers is None or after.numbers is None:  # any of them may have moved on
        compared = 1 if trend is None else trend.compared + 1
        now.trend = Trend((), (), compared)
        return compared <= _MOST_UNSEEN
    length = len(after.numbers)
    if len(before.numbers) != length:
        return False
    if trend is None or len(trend.ways) != length:
        trend = Trend((0,) * length, (0,) * length, 0)
    ways, turns, compared = list(trend.ways), list(trend.turns), trend.compared + 1
    moves_on = turns_first = False
    for place, (old, new) in enumerate(zip(before.numbers, after.numbers, strict=True)):
        if old == new or ways[place] == _NOISE:
            continue
        way = 1 if new > old else -1
        if ways[place] == -way:
            turns_first = turns_first or not turns[place]
            turns[place] += 1
            to_and_fro = turns[place] > 1 and turns[place] * 3 >= compared
            ways[place] = _NOISE if to_and_fro else 0  # it may begin again from there
        else:
            moves_on = True
            ways[place] = way
    now.trend = Trend(tuple(ways), tuple(turns), compared)
    return moves_on and not turns_first
