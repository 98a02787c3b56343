"""Detectors that count calls, whatever they return: ``counting = "calls"`` turns them on. Only polls are compared.

They refuse polls, re-reads and edit-and-test cycles, because the systems that the presets reproduce do so. The default
policy runs none of them. Those systems know no kinds, so a name exempts nothing: only ``kind = "step"`` does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors import (
    generic_repeat,
    global_circuit_breaker,
    lost,
    ping_pong,
    poll_no_progress,
    retry_limit,
    similar_query,
    unknown_tool_repeat,
)
from otel_loopguard.engine.detectors.row import Detector, Sentences
from otel_loopguard.engine.detectors.trips import trip
from otel_loopguard.engine.values.queries import query_of, similar
from otel_loopguard.engine.words import Action, Kind, Record, Trip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.detectors.row import Check
    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.history.window import CallWindow
    from otel_loopguard.engine.rule import Rule


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
    return trip(record, unknown_tool_repeat.ROW.mode, count, rule.block, Action.BLOCK) if count >= rule.block else None


def unknown_after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the configured number of calls to unknown tools."""
    if record.registered is not False or not rule.nudge:
        return None
    count = _window(history, record).unknown
    return trip(record, unknown_tool_repeat.ROW.mode, count, rule.nudge, Action.NUDGE) if count >= rule.nudge else None


# --- poll_no_progress: one poll with equal arguments, whose result stays the same --------------------------------


def polls_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the poll that is one too many in the window."""
    if not record.kind.polls or not rule.block:
        return None
    count = _window(history, record).unmoved(record.key) + 1
    return trip(record, poll_no_progress.ROW.mode, count, rule.block, Action.BLOCK) if count >= rule.block else None


def polls_after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the configured number of polls with one result."""
    if not record.kind.polls or not rule.nudge:
        return None
    count = _window(history, record).unmoved(record.key)
    return trip(record, poll_no_progress.ROW.mode, count, rule.nudge, Action.NUDGE) if count >= rule.nudge else None


# --- ping_pong: two calls in turn, whatever they return; a poll that moves begins a new row ----------------------


def alternation_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call that ends one lap too many."""
    if not rule.block or record.kind is Kind.STEP:
        return None
    laps = _alternating(_window(history, record), record.key) // 2
    return trip(record, ping_pong.ROW.mode, laps, rule.block, Action.BLOCK, period=2) if laps >= rule.block else None


def alternation_after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the call that ends a lap."""
    if not rule.nudge or record.kind is Kind.STEP:
        return None
    laps = _alternating(_window(history, record)) // 2
    return trip(record, ping_pong.ROW.mode, laps, rule.nudge, Action.NUDGE, period=2) if laps >= rule.nudge else None


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
        return trip(record, generic_repeat.ROW.mode, count, rule.abort, Action.ABORT)
    if rule.block and count >= rule.block:
        return trip(record, generic_repeat.ROW.mode, count, rule.block, Action.BLOCK)
    return None


def repeats_after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the configured number of equal calls."""
    if not rule.nudge or _is_exempt(history, record):
        return None
    count = _window(history, record).equal(record.key)
    return trip(record, generic_repeat.ROW.mode, count, rule.nudge, Action.NUDGE) if count >= rule.nudge else None


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
    return trip(record, similar_query.ROW.mode, count, rule.block, Action.BLOCK) if count >= rule.block else None


# --- global_circuit_breaker: all calls in the window, and in the turn --------------------------------------------


def total_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the first call beyond the turn's budget, or the one that is too many in the window."""
    if history.most_calls and history.calls >= history.most_calls:
        count, limit = history.calls + 1, history.most_calls
        return trip(record, global_circuit_breaker.ROW.mode, count, limit, Action.BLOCK, reason="max_calls")
    count = len(_window(history, record)) + 1
    if not rule.block or count < rule.block:
        return None
    return trip(record, global_circuit_breaker.ROW.mode, count, rule.block, Action.BLOCK, reason="window")


def total_after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge once the configured share of the turn's budget is used up."""
    if not history.most_calls or not rule.nudge_at_share:
        return None
    count, limit = history.calls, history.most_calls
    due = math.ceil(limit * rule.nudge_at_share) <= count < limit
    return trip(record, global_circuit_breaker.ROW.mode, count, limit, Action.NUDGE, reason="budget") if due else None


def _counted(
    row: Detector,
    before: Check,
    after: Check | None,
    sentences: Sentences | None = None,
    reasons: Mapping[str, Sentences] | None = None,
) -> Detector:
    """Return a row of this mode that counts calls, with sentences that mention no results."""
    refusal, nudge, _ = sentences or (row.refusal, row.nudge, None)
    return Detector(
        row.mode, before=before, after=after, refusal=refusal, nudge=nudge, reasons=reasons or {}, advice=row.advice
    )


COUNTED: tuple[Detector, ...] = (
    _counted(unknown_tool_repeat.ROW, unknown_before, unknown_after),
    _counted(
        poll_no_progress.ROW,
        polls_before,
        polls_after,
        Sentences(
            "{tool} was asked the same {before} times already.",
            "{tool} was asked the same {count} times now: wait longer between checks, or say so.",
        ),
    ),
    _counted(
        ping_pong.ROW,
        alternation_before,
        alternation_after,
        Sentences(
            "The same two calls were made in turn, {laps} times over.",
            "The same two calls have now been made in turn {laps} times.",
        ),
    ),
    _counted(
        generic_repeat.ROW,
        repeats_before,
        repeats_after,
        Sentences(
            "{tool} was called with these arguments {before} times already.",
            "{tool} has now been called {count} times with these arguments.",
        ),
        lost.ROW.reasons,
    ),
    _counted(
        similar_query.ROW,
        queries_before,
        None,
        Sentences(
            "{before} queries much like this one were made with {tool}.",
            "This is query {count} of much the same wording.",
        ),
    ),
    retry_limit.ROW,
    _counted(
        global_circuit_breaker.ROW,
        total_before,
        total_after,
        reasons={
            **global_circuit_breaker.BUDGET.reasons,
            "window": Sentences(
                "{before} tool calls were made in too short a time.",
                "{count} tool calls were made in a short time.",
            ),
            "budget": Sentences(nudge="{count} of the {limit} tool calls that this turn may make are used up."),
        },
    ),
)
