"""``no_novelty``: many calls in a row without news, in any shape: sweeps done twice, long cycles, toggles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import Detector, judged, trip, unchanged
from otel_loopguard.core.model import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.state import History
    from otel_loopguard.core.policy.policy import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the eighth call without news, if nothing changed since it last ran."""
    count = history.no_news_in_row + 1
    if not rule.block or count < rule.block or not judged(record) or not unchanged(history, record):
        return None
    return trip(record, Mode.NO_NOVELTY, count, rule.block, Action.BLOCK)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the fifth call without news."""
    if not rule.nudge or history.no_news_in_row < rule.nudge or record.news or not judged(record):
        return None
    return trip(record, Mode.NO_NOVELTY, history.no_news_in_row, rule.nudge, Action.NUDGE)


DETECTOR = Detector(Mode.NO_NOVELTY, before, after)
