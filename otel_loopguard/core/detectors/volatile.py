"""``volatile_repeat``: one call is repeated, and only numbers and ids in its results are new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import Detector, judged, trip, unchanged
from otel_loopguard.core.model import Action, Mode, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.state import History
    from otel_loopguard.core.policy.policy import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the twentieth run that is *alike*, with no change in between."""
    stats = record.stats
    if stats is None or not rule.block or stats.alike + 1 < rule.block:
        return None
    if not judged(record) or not unchanged(history, record):
        return None
    return trip(record, Mode.VOLATILE_REPEAT, stats.alike + 1, rule.block, Action.BLOCK)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the fifth run that is *alike*, and at the eighth equal call in a row, whatever it returned."""
    stats = record.stats
    if not judged(record) or record.sameness is Sameness.FIRST or record.concurrent:
        return None
    if record.sameness is Sameness.ALIKE and rule.nudge and stats.alike >= rule.nudge:
        return trip(record, Mode.VOLATILE_REPEAT, stats.alike, rule.nudge, Action.NUDGE)
    if rule.nudge_any_result and history.streak >= rule.nudge_any_result and history.last_key == record.key:
        return trip(
            record, Mode.VOLATILE_REPEAT, history.streak, rule.nudge_any_result, Action.NUDGE, reason="any_result"
        )
    return None


DETECTOR = Detector(Mode.VOLATILE_REPEAT, before, after)
