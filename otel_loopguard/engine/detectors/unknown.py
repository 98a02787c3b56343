"""``unknown_tool_repeat``: the model calls tools that do not exist, by any name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.base import Detector, trip
from otel_loopguard.engine.words import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.policy.policy import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the third call to an unregistered tool since a registered tool last succeeded."""
    if record.registered is not False or not rule.block or record.resolved.tool.digest in history.unknown_answered:
        return None
    count, may_exist = history.unknown_calls + 1, history.open_registry
    if count < rule.block:
        return None
    reason = "unregistered" if may_exist else ""
    return trip(record, Mode.UNKNOWN_TOOL_REPEAT, count, rule.block, Action.BLOCK, insistable=may_exist, reason=reason)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the second such call: the tool does not exist."""
    count = history.unknown_calls
    if record.registered is not False or not record.error or not rule.nudge or count < rule.nudge:
        return None
    return trip(record, Mode.UNKNOWN_TOOL_REPEAT, count, rule.nudge, Action.NUDGE)


DETECTOR = Detector(Mode.UNKNOWN_TOOL_REPEAT, before, after, untried=True)
