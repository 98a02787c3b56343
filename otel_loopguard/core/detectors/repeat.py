"""``generic_repeat``: the evidence rule. The same call returned the same result, and nothing changed in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import Detector, judged, trip
from otel_loopguard.core.history.evidence import first_limit, limit_now, weight
from otel_loopguard.core.model import Action, Mode, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.state import History
    from otel_loopguard.core.policy.policy import Rule

_ENOUGH = 1 - 1e-9


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call whose next *same* would complete the evidence; abort the run at the ``abort`` limit."""
    stats = record.stats
    if stats is None or stats.equal < first_limit(rule) - 1 or not judged(record):
        return None
    limit = limit_now(history, stats, rule)
    if not limit or stats.evidence + weight(limit) < _ENOUGH:
        return None
    if rule.abort and stats.equal + stats.refused + 1 >= rule.abort:
        return trip(record, Mode.GENERIC_REPEAT, stats.equal + stats.refused + 1, rule.abort, Action.ABORT)
    count = stats.equal + 1  # earlier runs may have weighed more than those of this limit
    return trip(record, Mode.GENERIC_REPEAT, count, min(limit, count), Action.BLOCK)


def after(_history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the first *same* without a change in between; with changes in between at the 6th, 12th, 24th."""
    stats = record.stats
    if record.sameness is not Sameness.SAME or not judged(record) or record.concurrent:
        return None
    if not record.changed_between:
        limit, reason = rule.nudge, ""
    else:
        limit, reason = rule.nudge_after_changes, "changed"
    if not limit or stats.equal < limit:
        return None
    return trip(record, Mode.GENERIC_REPEAT, stats.equal, limit, Action.NUDGE, reason=reason)


DETECTOR = Detector(Mode.GENERIC_REPEAT, before, after)
