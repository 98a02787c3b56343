"""``ping_pong`` and ``cycle``: two laps with equal calls and equal results, and a third lap begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors.base import Detector, trip, unchanged
from otel_loopguard.core.model import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.state import History
    from otel_loopguard.core.policy.policy import Rule

_SHORTEST = 2
_MOST_LAPS = 32


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call that begins or continues the third equal lap."""
    if record.polled or not unchanged(history, record) or not record.kind.makes_laps:
        return None
    period = _period(history, rule, following=record.key)
    rule = _rule_of(record, period, rule)
    if not period or not rule.block:
        return None
    laps, limit = _laps(history, period), _limit(rule.block, history, period, (rule.block_if_transient or 0) + 1)
    return trip(record, _mode(period), laps + 1, limit, Action.BLOCK, period=period) if laps + 1 >= limit else None


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the call that ends the second equal lap."""
    if record.polled or not record.kind.makes_laps:
        return None
    period = _period(history, rule, following=None)
    rule = _rule_of(record, period, rule)
    if not period or not rule.nudge or not len(history.keys) or history.keys[-1] != record.key:
        return None
    laps, limit = _laps(history, period), _limit(rule.nudge, history, period, rule.block_if_transient or 0)
    return trip(record, _mode(period), laps, limit, Action.NUDGE, period=period) if laps >= limit else None


def _mode(period: int) -> Mode:
    return Mode.PING_PONG if period == _SHORTEST else Mode.CYCLE


def _rule_of(record: Record, period: int, rule: Rule) -> Rule:
    """Return the rule of ``ping_pong`` for laps of two calls; ``rule`` is that of cycles."""
    return record.resolved.tool.rules[Mode.PING_PONG] if period == _SHORTEST else rule


def _period(history: History, rule: Rule, *, following: int | None) -> int:
    """Return the length of the shortest lap that was just run twice and that ``following`` would continue, or 0."""
    keys, results = history.keys, history.results
    length = len(keys)
    for period in range(_SHORTEST, min(rule.max_period or 8, length // 2) + 1):
        if following is not None and keys[-period] != following:
            continue
        if keys[-1] != keys[-1 - period] or results[-1] != results[-1 - period]:
            continue
        if keys[-period:] != keys[-2 * period : -period] or results[-period:] != results[-2 * period : -period]:
            continue
        if _differ(keys[-period:]) or _differ(results[-period:]):
            return period
    return 0


def _differ(items: object) -> bool:
    return len(set(items)) > 1  # type: ignore[call-overload]  # arrays and lists of numbers


def _laps(history: History, period: int) -> int:
    """Count the equal laps in a row."""
    keys, results = history.keys, history.results
    laps = 1
    while laps < _MOST_LAPS and len(keys) >= (laps + 1) * period:
        start, end = -(laps + 1) * period, -laps * period
        if keys[start:end] != keys[-period:] or results[start:end] != results[-period:]:
            break
        laps += 1
    return laps


def _limit(limit: int, history: History, period: int, limit_if_transient: int) -> int:
    """Return the limit of laps: the higher of both if the last lap has a transient error."""
    if not history.transients or not any(result in history.transients for result in history.results[-period:]):
        return limit
    return max(limit, limit_if_transient)


DETECTOR = Detector(Mode.CYCLE, before, after)
