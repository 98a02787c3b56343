"""``similar_query``: the same question in other words, to a tool that brings nothing new. Opt-in by contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.detectors.row import About, Bound, Counter, Detector, lowest
from otel_loopguard.engine.detectors.trips import trip
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import Setting
from otel_loopguard.engine.values.queries import query_of, similar
from otel_loopguard.engine.vocabulary import Action, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the fourth query that is similar to earlier ones which brought the same or nothing."""
    if not rule.block or not record.kind.is_evidence:
        return None
    count = _similar_before(history, record, rule)
    if record.stats is not None or count + 1 < rule.block:  # a query that was tried is judged by its results
        return None
    return trip(record, ROW.mode, count + 1, rule.block, Action.BLOCK, insistable=True)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the third similar query."""
    if not rule.nudge or not record.kind.is_evidence or record.error:
        return None
    count = _similar_before(history, record, rule)  # the query itself is among them by now
    if record.sameness is not Sameness.FIRST or count < rule.nudge:
        return None
    return trip(record, ROW.mode, count, rule.nudge, Action.NUDGE)


def _similar_before(history: History, record: Record, rule: Rule) -> int:
    stats = history.tools.get(record.resolved.tool.digest)
    query = query_of(record.resolved.arguments, record.resolved.tool.contract.query)
    if stats is None or not stats.queries or query is None:
        return 0
    dangerous = record.resolved.tool.dangerous
    return sum(similar(query, earlier, rule.similarity or 1.0, dangerous) for earlier in stats.queries)


def may_trip_from(rule: Rule) -> Bound:
    """Bound this detector by the calls of one tool."""
    return {Counter.OF_TOOL: lowest(rule.nudge, rule.block)}


def concerns(tool: Any, _policy: Any) -> bool:
    """Return True if the contract of the tool names a query."""
    return tool.contract.query is not None


ROW = Detector(
    "similar_query",
    rule=Rule(nudge=3, block=4, similarity=0.75),
    settings={
        "similarity": Setting.share("The similarity from which two queries count as similar (0 to 1)."),
    },
    before=before,
    after=after,
    concerns=concerns,
    may_trip_from=may_trip_from,
    refusal="{before} queries much like this one were made with {tool}, and brought nothing new.",
    nudge="This is query {count} of much the same wording; none brought anything the first did not.",
    about=About(
        title="nearly the same query",
        agent="sends the same query in other words (opt-in)",
        told="3rd",
        refused="4th, unless it insists",
        precisely=("a declared query in nearly the same words brings nothing new", "3rd", "4th"),
        cause="the search finds nothing, and does not say so",
    ),
)
