"""``similar_query``: the same question in other words, to a tool that brings nothing new. Opt-in by contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.base import Detector, trip
from otel_loopguard.engine.values.queries import query_of, similar
from otel_loopguard.engine.words import Action, Mode, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.policy.policy import Policy, Rule
    from otel_loopguard.engine.tools.contracts import Tool


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the fourth query that is similar to earlier ones which brought the same or nothing."""
    if not rule.block or not record.kind.is_evidence:
        return None
    count = _similar_before(history, record, rule)
    if record.stats is not None or count + 1 < rule.block:  # a query that was tried is judged by its results
        return None
    return trip(record, Mode.SIMILAR_QUERY, count + 1, rule.block, Action.BLOCK, insistable=True)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the third such query."""
    if not rule.nudge or not record.kind.is_evidence or record.error:
        return None
    count = _similar_before(history, record, rule)  # the query itself is among them by now
    if record.sameness is not Sameness.FIRST or count < rule.nudge:
        return None
    return trip(record, Mode.SIMILAR_QUERY, count, rule.nudge, Action.NUDGE)


def _similar_before(history: History, record: Record, rule: Rule) -> int:
    stats = history.tools.get(record.resolved.tool.digest)
    query = query_of(record.resolved.arguments, record.resolved.tool.contract.query)
    if stats is None or not stats.queries or query is None:
        return 0
    dangerous = record.resolved.tool.dangerous
    return sum(similar(query, earlier, rule.similarity or 1.0, dangerous) for earlier in stats.queries)


def _concerns(tool: Tool, _policy: Policy) -> bool:
    return tool.contract.query is not None


DETECTOR = Detector(Mode.SIMILAR_QUERY, before, after, untried=True, judges_news=True, concerns=_concerns)
