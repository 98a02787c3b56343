"""``ping_pong`` and ``cycle``: two laps with equal calls and equal results, and a third lap begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.base import Detector, nudge_limit, refusal, trip, unchanged
from otel_loopguard.engine.history.call_stats import ACKNOWLEDGED, ACTED, PENDING, TRANSIENT
from otel_loopguard.engine.words import Action, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.policy.policy import Rule

_SHORTEST = 2
_MOST_LAPS = 32


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call that begins or continues the third equal lap; after waiting, laps weigh less."""
    if not record.kind.makes_laps or not unchanged(history, record):
        return None
    period = _period(history, rule, following=record.key)
    rule = _rule_of(record, period, rule)
    if not period or not rule.block:
        return None
    laps, limit = _laps(history, period), _limit(history, record, period, rule)
    if laps * record.haste < limit - 1:
        return None
    return refusal(history, record, _mode(period), laps + 1, min(limit, laps + 1), period=period)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the call that ends the second equal lap; later where the limit is higher."""
    if not record.kind.makes_laps:
        return None
    period = _period(history, rule, following=None)
    rule = _rule_of(record, period, rule)
    if not period or not rule.nudge or not len(history.keys) or history.keys[-1] != record.key:
        return None
    laps, due = _laps(history, period), nudge_limit(rule.nudge, _limit(history, record, period, rule))
    return trip(record, _mode(period), laps, due, Action.NUDGE, period=period) if laps >= due else None


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


def _limit(history: History, record: Record, period: int, rule: Rule) -> int:
    """Return the lap that is refused, by what the results of the last lap prove."""
    rules, block = record.resolved.tool.rules, rule.block or 0
    flags, results = history.flags[-period:], history.results[-period:]
    any_flag = 0
    for each in flags:
        any_flag |= each
    if any_flag & PENDING:
        return max(block, rules[Mode.POLL_NO_PROGRESS].block or 0)
    repeat = rules[Mode.GENERIC_REPEAT]
    if not _differ(history.keys[-period:]):  # one call that goes round
        return max(block, repeat.block_if_acknowledged or 0)
    if not _differ(results) and all(each & (ACTED | ACKNOWLEDGED) for each in flags):
        acts = repeat.block_if_acknowledged if any_flag & ACKNOWLEDGED else repeat.block_if_acted
        return max(block, acts or 0)
    return max(block, rule.block_if_transient or 0) if any_flag & TRANSIENT else block


DETECTOR = Detector(Mode.CYCLE, before, after)
