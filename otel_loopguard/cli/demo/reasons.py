"""Say why a call ran or was refused, from the guard's decision about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard import semconv
from otel_loopguard.engine.words import Action, Sameness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.words import Record

_ALL = "100\N{NO-BREAK SPACE}%"
EVIDENCE = f"Evidence is what the repeats of a call prove so far. The call that would complete {_ALL} is refused."
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


def reason_of(record: Record | None, trip: Mapping[str, object]) -> str:
    """Return the reason of a decision; ``trip`` are the attributes of the loop that was detected, empty if none was."""
    if not trip:
        return _why_it_ran(record)
    count, limit, verdict = trip[semconv.COUNT], trip[semconv.LIMIT], str(trip[semconv.VERDICT])
    if verdict in _REFUSED:
        attempt = 1 if record is None else record.attempt
        again = f"; attempt {attempt}" if attempt > int(str(count)) else ""
        return f"{trip[semconv.MODE]}: {count}, limit {limit}{again}{_REFUSED[verdict]}"
    return "; ".join(filter(None, (f"{trip[semconv.MODE]}: {count}, nudge limit {limit}", _evidence(record))))


def _why_it_ran(record: Record | None) -> str:
    if record is None or record.stats is None:
        return "a new call"
    if record.sameness in _SAMENESS:
        return _SAMENESS[record.sameness]
    if record.changed_between:
        return "the same result, but something changed since"
    if record.waited:
        return "the same result, but it waited"
    return "; ".join(filter(None, ("the same result", _evidence(record))))


def _evidence(record: Record | None) -> str:
    """Return the sum of the call's evidence, and what made this repeat prove less; empty if it proves nothing."""
    if record is None or record.sameness is not Sameness.SAME or not record.limit.weight:
        return ""
    news = record.since[0]
    less = f" (weighs less: {news} new result{'s' * (news > 1)} in between)" if news else ""
    return f"evidence {100 * record.stats.evidence:.0f}\N{NO-BREAK SPACE}%{less}"
