"""``ping_pong``, counted: two calls in turn, whatever they return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import NO_LAP, Detector, counted, declared_exempt, trip
from otel_loopguard.core.model import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_loopguard.core.history.update import History
    from otel_loopguard.core.policy.policy import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """The call that would end one lap too many."""
    if not rule.block or declared_exempt(record, NO_LAP):
        return None
    laps = alternating([record.key, *counted(history, record).latest()]) // 2
    return trip(record, Mode.PING_PONG, laps, rule.block, Action.BLOCK, period=2) if laps >= rule.block else None


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """The call that ended a lap and whose result comes with a sentence."""
    if not rule.nudge or declared_exempt(record, NO_LAP):
        return None
    laps = alternating(counted(history, record).latest()) // 2
    return trip(record, Mode.PING_PONG, laps, rule.nudge, Action.NUDGE, period=2) if laps >= rule.nudge else None


def alternating(latest: Iterable[int]) -> int:
    """How many calls at the end, the last one first, are two different ones in turn."""
    keys = list(latest)
    if len(keys) < 2 or keys[0] == keys[1]:
        return 0
    length = 2
    while length < len(keys) and keys[length] == keys[length - 2]:
        length += 1
    return length


DETECTOR = Detector(Mode.PING_PONG, before, after, untried=True, judges_news=True)
