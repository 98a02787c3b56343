"""Say in a few words why a call ran, was told or was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard import semconv
from otel_loopguard.engine.vocabulary import Action, Sameness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.vocabulary import Record

PERCENT = "\N{NO-BREAK SPACE}%"
_SAMENESS = {
    Sameness.ALIKE: "only ids and numbers differ",
    Sameness.PROGRESS: "the numbers move on",
    Sameness.DIFFERENT: "the result has changed",
}
_REFUSED = {
    str(Action.REUSE): "",
    str(Action.BLOCK): "",
    str(Action.CONCLUDE): "; a conclusion is due",
    str(Action.ABORT): "; too many refusals without news",
}
"""The verdicts of calls that are refused, and what is to come."""


def reason_of(record: Record, trip: Mapping[str, object]) -> str:
    """Return the reason of a decision; ``trip`` are the attributes of the loop that was detected, empty if none was."""
    if not trip:
        return _why_it_ran(record)
    mode, count, limit = trip[semconv.MODE], trip[semconv.COUNT], trip[semconv.LIMIT]
    to_come = _REFUSED.get(str(trip[semconv.VERDICT]))
    if to_come is None:
        return "; ".join(filter(None, (f"{mode}: {count}, nudge limit {limit}", _evidence(record))))
    again = f"; attempt {record.attempt}" if record.attempt > int(str(count)) else ""
    return f"{mode}: {count}, limit {limit}{again}{to_come}"


def _why_it_ran(record: Record) -> str:
    if record.stats is None:
        return "a new call"
    if record.sameness in _SAMENESS:
        return _SAMENESS[record.sameness]
    if record.changed_between:
        return "the same result, but something changed since"
    if record.waited:
        return "the same result, but it waited"
    return "; ".join(filter(None, ("the same result", _evidence(record))))


def _evidence(record: Record) -> str:
    """Return the sum of the call's evidence, and what made this repeat prove less; empty if it proves nothing."""
    if record.sameness is not Sameness.SAME or not record.limit.weight:
        return ""
    news = record.since[0]
    less = f" (weighs less: {news} new result{'s' * (news > 1)} in between)" if news else ""
    return f"evidence {100 * record.stats.evidence:.0f}{PERCENT}{less}"
