"""``unknown_tool_repeat``, counted: calls to tools that do not exist, whatever they are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import Detector, counted, trip
from otel_loopguard.core.model import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.update import History
    from otel_loopguard.core.policy.policy import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """The call that would be one too many in the window."""
    if record.registered is not False or not rule.block:
        return None
    count = counted(history, record).unknown + 1
    return trip(record, Mode.UNKNOWN_TOOL_REPEAT, count, rule.block, Action.BLOCK) if count >= rule.block else None


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """The call whose error comes with a sentence."""
    if record.registered is not False or not rule.nudge:
        return None
    count = counted(history, record).unknown
    return trip(record, Mode.UNKNOWN_TOOL_REPEAT, count, rule.nudge, Action.NUDGE) if count >= rule.nudge else None


DETECTOR = Detector(Mode.UNKNOWN_TOOL_REPEAT, before, after, untried=True, judges_news=True)
