"""``error_repeat``: one tool fails in the same way, or returns the same result, for different arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import Detector, judged, trip
from otel_loopguard.core.model import Action, Kind, Mode, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.state import History
    from otel_loopguard.core.policy.policy import Rule


_FIRST = Sameness.FIRST


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the sixth untried call of a tool that failed in the same way on the others, with no change since."""
    if record.stats is not None or not rule.block:
        return None
    stats = history.tools.get(record.resolved.tool.digest)
    if stats is None or stats.errors + 1 < rule.block or stats.changes != history.changes or not judged(record):
        return None
    return trip(record, Mode.ERROR_REPEAT, stats.errors + 1, rule.block, Action.BLOCK, insistable=True)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the third such failure, and at the fifth equal result of a reading tool for new arguments."""
    stats = history.tools.get(record.resolved.tool.digest)
    if stats is None or record.sameness is not _FIRST:
        return None
    if record.error:
        if not rule.nudge or stats.errors < rule.nudge or not judged(record):
            return None
        return trip(record, Mode.ERROR_REPEAT, stats.errors, rule.nudge, Action.NUDGE)
    if not rule.nudge_same_result or stats.same_results < rule.nudge_same_result:
        return None
    if record.kind is not Kind.READ or not judged(record):
        return None
    return trip(
        record, Mode.ERROR_REPEAT, stats.same_results, rule.nudge_same_result, Action.NUDGE, reason="same_result"
    )


DETECTOR = Detector(Mode.ERROR_REPEAT, before, after, untried=True, judges_news=True)
