"""``similar_query``, counted: much the same question to the same tool, whatever it answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import Detector, counted, trip
from otel_loopguard.core.model import Action, Mode, Record, Trip
from otel_loopguard.core.values.queries import query_of, similar

if TYPE_CHECKING:
    from otel_loopguard.core.history.update import History
    from otel_loopguard.core.policy.policy import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """The query that has been asked in much the same words."""
    contract = record.resolved.tool.contract
    query = query_of(record.resolved.arguments, contract.query)
    if query is None or not rule.block:
        return None
    asked, dangerous = counted(history, record).queries(record.tool), record.resolved.tool.dangerous
    count = sum(similar(query, earlier, rule.similarity or 1.0, dangerous) for earlier in asked) + 1
    return trip(record, Mode.SIMILAR_QUERY, count, rule.block, Action.BLOCK) if count >= rule.block else None


DETECTOR = Detector(Mode.SIMILAR_QUERY, before, None, untried=True)
