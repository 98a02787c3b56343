"""``repeated_effect``: an effect that must happen once is about to happen again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.base import Detector, refusal, trip, unchanged
from otel_loopguard.engine.words import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.policy.policy import Policy, Rule
    from otel_loopguard.engine.tools.contracts import Tool


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
    if not 0 < limit <= count or not _may_be_destructive(record) or not unchanged(history, record):
        return None
    return refusal(history, record, Mode.REPEATED_EFFECT, count, limit)


def after(_history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the second success of such a tool."""
    stats = record.stats
    if stats is None or record.error or not rule.nudge or stats.successes < rule.nudge or not record.kind.is_evidence:
        return None
    if not (record.resolved.tool.contract.once or _may_be_destructive(record)):
        return None
    return trip(record, Mode.REPEATED_EFFECT, stats.successes, rule.nudge, Action.NUDGE)


def _may_be_destructive(record: Record) -> bool:
    """Return True if the server's hint holds: a declared kind that does not write answers it."""
    return not record.resolved.tool.declared or record.kind.writes


def _concerns(tool: Tool, _policy: Policy) -> bool:
    """Return True if the tool is declared ``once``, or its server calls it destructive and it is not declared."""
    hints = tool.hints
    hinted = hints is not None and hints.destructive is True and hints.idempotent is False
    return bool(tool.contract.once) or (hinted and tool.contract.once is None)


DETECTOR = Detector(Mode.REPEATED_EFFECT, before, after, concerns=_concerns)
