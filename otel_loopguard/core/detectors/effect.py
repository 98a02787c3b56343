"""``repeated_effect``: an effect that must happen once is about to happen again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import Detector, refusal, trip, unchanged
from otel_loopguard.core.model import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.state import History
    from otel_loopguard.core.policy.policy import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the second run of a tool declared ``once``, and the fifth of one whose server calls it destructive."""
    stats = record.stats
    if stats is None or not stats.successes or not record.kind.is_evidence:
        return None
    count = stats.successes + 1
    if record.resolved.tool.contract.once:
        limit = rule.block or 0
        return trip(record, Mode.REPEATED_EFFECT, count, limit, Action.BLOCK) if 0 < limit <= count else None
    limit = rule.block_if_destructive or 0
    if not 0 < limit <= count or not _hinted(record) or not unchanged(history, record):
        return None
    return refusal(history, record, Mode.REPEATED_EFFECT, count, limit)


def after(_history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the second success of a tool whose server calls it destructive."""
    stats = record.stats
    if stats is None or record.error or not rule.nudge or stats.successes < rule.nudge or not record.kind.is_evidence:
        return None
    if not (record.resolved.tool.contract.once or _hinted(record)):
        return None
    return trip(record, Mode.REPEATED_EFFECT, stats.successes, rule.nudge, Action.NUDGE)


def _hinted(record: Record) -> bool:
    """Return True if the server calls the tool destructive, and the contract does not decide it.

    ``once=False`` answers it, and so does a kind that does not write; a kind that writes leaves it open.
    """
    tool = record.resolved.tool
    hints = tool.hints
    if hints is None or hints.destructive is not True or hints.idempotent is not False:
        return False
    return tool.contract.once is None and (not tool.declared or record.kind.writes)


DETECTOR = Detector(Mode.REPEATED_EFFECT, before, after)
