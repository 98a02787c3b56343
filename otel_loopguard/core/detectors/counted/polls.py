"""``poll_no_progress``, counted: a polling tool asked the same again and again, whatever it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import POLLING, Detector, counted, trip
from otel_loopguard.core.model import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.update import History
    from otel_loopguard.core.policy.policy import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """The poll that would be one too many in the window."""
    if record.kind not in POLLING or not rule.block:
        return None
    count = counted(history, record).equal(record.key) + 1
    return trip(record, Mode.POLL_NO_PROGRESS, count, rule.block, Action.BLOCK) if count >= rule.block else None


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """The poll whose result comes with a sentence."""
    if record.kind not in POLLING or not rule.nudge:
        return None
    count = counted(history, record).equal(record.key)
    return trip(record, Mode.POLL_NO_PROGRESS, count, rule.nudge, Action.NUDGE) if count >= rule.nudge else None


DETECTOR = Detector(Mode.POLL_NO_PROGRESS, before, after, untried=True, judges_news=True)
