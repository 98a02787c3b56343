"""``no_novelty``: many calls in a row without news, in any shape: sweeps done twice, long cycles, toggles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.base import Detector, refusal, trip, unchanged
from otel_loopguard.engine.history.evidence import strength
from otel_loopguard.engine.words import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.policy.policy import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the eighth call without news, if nothing changed since it last ran. Calls that prove little count less."""
    if not rule.block or history.no_news_in_row + 1 < rule.block or record.stats is None:
        return None
    count = history.no_news_in_row + strength(record, same=True)
    if count < rule.block or not record.kind.is_evidence or not unchanged(history, record):
        return None
    return refusal(history, record, Mode.NO_NOVELTY, int(count), rule.block)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the fifth call without news."""
    count = int(history.no_news_in_row)
    if not rule.nudge or count < rule.nudge or record.news or not record.kind.is_evidence:
        return None
    return trip(record, Mode.NO_NOVELTY, count, rule.nudge, Action.NUDGE)


DETECTOR = Detector(Mode.NO_NOVELTY, before, after)
