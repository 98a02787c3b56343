"""``volatile_repeat``: one call is repeated, and only numbers and ids in its results are new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.base import Detector, refusal, trip, unchanged
from otel_loopguard.engine.history.evidence import Reason
from otel_loopguard.engine.words import Action, Mode, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.policy.policy import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the twentieth run that is *alike*, with no change in between."""
    stats = record.stats
    if stats is None or not rule.block or stats.alike + 1 < rule.block:
        return None
    if not record.kind.is_evidence or not unchanged(history, record):
        return None
    return refusal(history, record, Mode.VOLATILE_REPEAT, stats.alike + 1, rule.block)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the fifth run that is *alike*, and at the eighth equal call in a row, whatever it returned."""
    stats, limit = record.stats, record.limit
    if stats is None or limit is None or not record.kind.is_evidence or record.concurrent:
        return None
    if record.sameness is Sameness.ALIKE and rule.nudge and stats.alike >= rule.nudge:
        return trip(record, Mode.VOLATILE_REPEAT, stats.alike, rule.nudge, Action.NUDGE)
    patient = limit.reason is Reason.PATIENT or record.waited
    due = (rule.nudge_any_result or 0) * (4 if record.news else 3 if patient else 1)
    if not due or history.streak < due or history.last_key != record.key:
        return None
    return trip(record, Mode.VOLATILE_REPEAT, history.streak, due, Action.NUDGE, reason="any_result")


DETECTOR = Detector(Mode.VOLATILE_REPEAT, before, after)
