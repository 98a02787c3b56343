"""``poll_no_progress``: a poll is repeated, and its answer never moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import Detector, trip, unchanged
from otel_loopguard.core.model import Action, Kind, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.state import History
    from otel_loopguard.core.policy.policy import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the twentieth run without news, and a poll that keeps its interval once its ``patience`` is over."""
    stats = record.stats
    if not record.polled or stats is None or stats.poll is None or not unchanged(history, record):
        return None
    if not record.kind.is_evidence or (record.kind is Kind.WAIT and history.news != stats.news):
        return None  # a wait is not refused while what it waits for moves
    counted, since = stats.poll
    count = counted + (record.at - stats.at < (rule.min_interval or 0))
    patient = record.at - stats.at >= (rule.min_interval or 0)
    out_of_patience = patient and bool(rule.patience) and record.at - since > (rule.patience or 0)
    if not (rule.block and count >= rule.block) and not out_of_patience:
        return None
    reason = "patience" if out_of_patience else ""
    return trip(record, Mode.POLL_NO_PROGRESS, count, rule.block or 0, Action.BLOCK, reason=reason)


def after(_history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the tenth run without news."""
    stats = record.stats
    if (
        not record.polled
        or stats is None
        or stats.poll is None
        or not record.kind.is_evidence
        or not rule.nudge
        or stats.poll[0] < rule.nudge
    ):
        return None
    return trip(record, Mode.POLL_NO_PROGRESS, stats.poll[0], rule.nudge, Action.NUDGE)


DETECTOR = Detector(Mode.POLL_NO_PROGRESS, before, after)
