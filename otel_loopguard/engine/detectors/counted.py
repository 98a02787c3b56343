"""Detectors that count calls, whatever they return: ``counting = "calls"`` turns them on. Only polls are compared.

They refuse polls, re-reads and edit-and-test cycles, because the systems that the presets reproduce do so. The default
policy runs none of them. Those systems know no kinds, so a name exempts nothing: only ``kind = "step"`` does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors import retry
from otel_loopguard.engine.detectors.base import Detector, trip
from otel_loopguard.engine.values.queries import query_of, similar
from otel_loopguard.engine.words import Action, Kind, Mode, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.history.window import CallWindow
    from otel_loopguard.engine.policy.policy import Rule


def _window(history: History, record: Record) -> CallWindow:
    """Return the calls that count at this moment."""
    window = history.window
    assert window is not None  # noqa: S101 - CompiledPolicy runs these detectors only where it makes a window
    window.forget_until(record.at or 0.0)
    return window


# --- unknown_tool_repeat: calls to tools that do not exist, by any name ------------------------------------------


def unknown_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call to an unknown tool that is one too many in the window."""
    if record.registered is not False or not rule.block:
        return None
    count = _window(history, record).unknown + 1
    return trip(record, Mode.UNKNOWN_TOOL_REPEAT, count, rule.block, Action.BLOCK) if count >= rule.block else None


def unknown_after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the configured number of calls to unknown tools."""
    if record.registered is not False or not rule.nudge:
        return None
    count = _window(history, record).unknown
    return trip(record, Mode.UNKNOWN_TOOL_REPEAT, count, rule.nudge, Action.NUDGE) if count >= rule.nudge else None


# --- poll_no_progress: one poll with equal arguments, whose result stays the same --------------------------------


def polls_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the poll that is one too many in the window."""
    if not record.kind.polls or not rule.block:
        return None
    count = _window(history, record).unmoved(record.key) + 1
    return trip(record, Mode.POLL_NO_PROGRESS, count, rule.block, Action.BLOCK) if count >= rule.block else None


def polls_after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the configured number of polls with one result."""
    if not record.kind.polls or not rule.nudge:
        return None
    count = _window(history, record).unmoved(record.key)
    return trip(record, Mode.POLL_NO_PROGRESS, count, rule.nudge, Action.NUDGE) if count >= rule.nudge else None


# --- ping_pong: two calls in turn, whatever they return; a poll that moves begins a new row ----------------------


def alternation_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call that ends one lap too many."""
    if not rule.block or record.kind is Kind.STEP:
        return None
    laps = _alternating(_window(history, record), record.key) // 2
    return trip(record, Mode.PING_PONG, laps, rule.block, Action.BLOCK, period=2) if laps >= rule.block else None


def alternation_after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the call that ends a lap."""
    if not rule.nudge or record.kind is Kind.STEP:
        return None
    laps = _alternating(_window(history, record)) // 2
    return trip(record, Mode.PING_PONG, laps, rule.nudge, Action.NUDGE, period=2) if laps >= rule.nudge else None


def _alternating(window: CallWindow, *keys: int) -> int:
    """Count the calls at the end that are two different calls in turn: those of the window, then ``keys``."""
    row = list(keys)
    for call in window.latest():
        if len(row) >= 2 and call.key != row[-2]:
            break
        row.append(call.key)
        if call.moved:
            break
    return len(row) if len(row) >= 2 and row[0] != row[1] else 0


# --- generic_repeat: one tool with equal arguments, whatever it returns ------------------------------------------


def repeats_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call that is one too many in the window; ``abort`` ends the run instead."""
    if _is_exempt(history, record):
        return None
    count = _window(history, record).equal(record.key) + 1
    if rule.abort and count >= rule.abort:
        return trip(record, Mode.GENERIC_REPEAT, count, rule.abort, Action.ABORT)
    if rule.block and count >= rule.block:
        return trip(record, Mode.GENERIC_REPEAT, count, rule.block, Action.BLOCK)
    return None


def repeats_after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the configured number of equal calls."""
    if not rule.nudge or _is_exempt(history, record):
        return None
    count = _window(history, record).equal(record.key)
    return trip(record, Mode.GENERIC_REPEAT, count, rule.nudge, Action.NUDGE) if count >= rule.nudge else None


def _is_exempt(history: History, record: Record) -> bool:
    """Return True for tools declared a step, and for polls if the policy has a mode for them."""
    if record.kind is Kind.STEP:
        return True
    return record.kind.polls and _window(history, record).has_poll_mode


# --- similar_query: nearly the same question to one tool, whatever it returns ------------------------------------


def queries_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse a query that was made in nearly the same words."""
    tool = record.resolved.tool
    query = query_of(record.resolved.arguments, tool.contract.query)
    if query is None or not rule.block:
        return None
    earlier = _window(history, record).queries(tool.digest)
    count = sum(similar(query, one, rule.similarity or 1.0, tool.dangerous) for one in earlier) + 1
    return trip(record, Mode.SIMILAR_QUERY, count, rule.block, Action.BLOCK) if count >= rule.block else None


# --- global_circuit_breaker: all calls in the window, and in the turn --------------------------------------------


def total_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the first call beyond the turn's budget, or the one that is too many in the window."""
    if history.most_calls and history.calls >= history.most_calls:
        count, limit = history.calls + 1, history.most_calls
        return trip(record, Mode.GLOBAL_CIRCUIT_BREAKER, count, limit, Action.BLOCK, reason="max_calls")
    count = len(_window(history, record)) + 1
    if not rule.block or count < rule.block:
        return None
    return trip(record, Mode.GLOBAL_CIRCUIT_BREAKER, count, rule.block, Action.BLOCK, reason="window")


def total_after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge once the configured share of the turn's budget is used up."""
    if not history.most_calls or not rule.nudge_at_share:
        return None
    count, limit = history.calls, history.most_calls
    due = math.ceil(limit * rule.nudge_at_share) <= count < limit
    return trip(record, Mode.GLOBAL_CIRCUIT_BREAKER, count, limit, Action.NUDGE, reason="budget") if due else None


COUNTED: tuple[Detector, ...] = (
    Detector(Mode.UNKNOWN_TOOL_REPEAT, unknown_before, unknown_after, untried=True, judges_news=True),
    Detector(Mode.POLL_NO_PROGRESS, polls_before, polls_after, untried=True, judges_news=True),
    Detector(Mode.PING_PONG, alternation_before, alternation_after, untried=True, judges_news=True),
    Detector(Mode.GENERIC_REPEAT, repeats_before, repeats_after, untried=True, judges_news=True),
    Detector(Mode.SIMILAR_QUERY, queries_before, None, untried=True),
    retry.DETECTOR,
    Detector(Mode.GLOBAL_CIRCUIT_BREAKER, total_before, total_after, untried=True, judges_news=True),
)
