"""``global_circuit_breaker``, counted: how many calls are made at all, in the window and in the turn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import Detector, counted, trip
from otel_loopguard.core.model import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.update import History
    from otel_loopguard.core.policy.policy import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """The first call beyond the turn's budget; the call that would be one too many in the window."""
    if history.most_calls and history.calls >= history.most_calls:
        count, limit = history.calls + 1, history.most_calls
        return trip(record, Mode.GLOBAL_CIRCUIT_BREAKER, count, limit, Action.BLOCK, reason="max_calls")
    count = len(counted(history, record)) + 1
    if not rule.block or count < rule.block:
        return None
    return trip(record, Mode.GLOBAL_CIRCUIT_BREAKER, count, rule.block, Action.BLOCK, reason="window")


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """The call with which the given share of the turn's budget is used up."""
    if not history.most_calls or not rule.nudge_at_share:
        return None
    count, limit = history.calls, history.most_calls
    due = math.ceil(limit * rule.nudge_at_share) <= count < limit
    return trip(record, Mode.GLOBAL_CIRCUIT_BREAKER, count, limit, Action.NUDGE, reason="budget") if due else None


DETECTOR = Detector(Mode.GLOBAL_CIRCUIT_BREAKER, before, after, untried=True, judges_news=True)
