"""Find laps: the same calls in one order, made again with the same results. ``ping_pong`` and ``cycle`` judge them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.trips import nudge_limit, refusal, trip, unchanged
from otel_loopguard.engine.history.call_stats import ACKNOWLEDGED, ACTED, PENDING
from otel_loopguard.engine.vocabulary import Action, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.rule import Rule

SHORTEST = 2
_MOST_LAPS = 32


def refuse(history: History, record: Record, rule: Rule, mode: str, period: int) -> Trip | None:
    """Refuse the call that begins or continues the third equal lap, or a later one where results prove less."""
    if not rule.block:
        return None
    laps, limit = _laps(history, period), _limit(history, record, period, rule)
    if laps * record.haste < limit - 1:
        return None
    return refusal(history, record, mode, laps + 1, min(limit, laps + 1), period=period)


def nudge(history: History, record: Record, rule: Rule, mode: str, period: int) -> Trip | None:
    """Nudge at the call that ends the second equal lap; later where the limit is higher."""
    if not rule.nudge or not record.haste or not len(history.keys) or history.keys[-1] != record.key:
        return None
    laps, due = _laps(history, period), nudge_limit(rule.nudge, _limit(history, record, period, rule))
    return trip(record, mode, laps, due, Action.NUDGE, period=period) if laps >= due else None


def period_before(history: History, record: Record, longest: int) -> int:
    """Return the length of the lap that a call would continue; 0 if none, or if something may have changed since."""
    if not record.kind.makes_laps or not unchanged(history, record):
        return 0
    return _period(history, longest, following=record.key)


def period_after(history: History, record: Record, longest: int) -> int:
    """Return the length of the lap that was just run twice; 0 if none was."""
    return _period(history, longest, following=None) if record.kind.makes_laps else 0


def _period(history: History, longest: int, *, following: int | None) -> int:
    """Return the length of the shortest lap that was just run twice, and that ``following`` would continue; else 0."""
    keys, results = history.keys, history.results
    for period in range(SHORTEST, min(longest, len(keys) // 2) + 1):
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
    """Return the number of the lap that is refused, by what the results of the last lap prove."""
    rules, block = record.resolved.tool.rules, rule.block or 0
    flags, results = history.flags[-period:], history.results[-period:]
    any_flag = 0
    for each in flags:
        any_flag |= each
    if any_flag & PENDING:
        return max(block, rules["poll_no_progress"].block or 0)
    repeat = rules["generic_repeat"]
    if not _differ(history.keys[-period:]):  # one call that goes round
        return max(block, repeat.block_if_acknowledged or 0)
    if not _differ(results) and all(each & (ACTED | ACKNOWLEDGED) for each in flags):
        acts = repeat.block_if_acknowledged if any_flag & ACKNOWLEDGED else repeat.block_if_acted
        return max(block, acts or 0)
    return block
