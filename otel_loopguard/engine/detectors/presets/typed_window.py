"""``typed_window``: five named modes over a rolling window of (time, tool, fingerprint of the arguments).

The window has the calls of the last 60 seconds, refused attempts included. Only of polls are results compared: a poll
whose state moves is not refused. The system names its five limits only by letters: N, M, K, J and G. The numbers here
are examples; set your own, also per tool: ``[tools."NAME"] modes.generic_repeat.block = 10``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors import global_circuit_breaker, ping_pong, poll_no_progress, unknown_tool_repeat
from otel_loopguard.engine.detectors.presets import equal_calls
from otel_loopguard.engine.detectors.presets.preset import Preset
from otel_loopguard.engine.detectors.presets.window import window_at
from otel_loopguard.engine.detectors.row import Bound, Counter, Detector, Sentences, lowest
from otel_loopguard.engine.detectors.trips import trip
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action, Kind, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.detectors.presets.window import CallWindow
    from otel_loopguard.engine.history.history import History

# --- M calls in the window to tools that do not exist, by any name -----------------------------------------------


def unknown_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call to an unknown tool that is one too many in the window."""
    if record.registered is not False or not rule.block:
        return None
    count = window_at(history, record).unknown + 1
    return trip(record, UNKNOWN.mode, count, rule.block, Action.BLOCK) if count >= rule.block else None


def unknown_after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the configured number of calls to unknown tools."""
    if record.registered is not False or not rule.nudge:
        return None
    count = window_at(history, record).unknown
    return trip(record, UNKNOWN.mode, count, rule.nudge, Action.NUDGE) if count >= rule.nudge else None


UNKNOWN = Detector(
    unknown_tool_repeat.ROW.mode,
    rule=Rule(nudge=0, block=3),
    before=unknown_before,
    after=unknown_after,
    may_trip_from=unknown_tool_repeat.may_trip_from,
    refusal=unknown_tool_repeat.ROW.refusal,
    nudge=unknown_tool_repeat.ROW.nudge,
    advice=unknown_tool_repeat.ROW.advice,
)

# --- K equal polls in the window with one result -----------------------------------------------------------------


def polls_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the poll that is one too many in the window."""
    if not record.kind.polls or not rule.block:
        return None
    count = window_at(history, record).unmoved(record.key) + 1
    return trip(record, POLLS.mode, count, rule.block, Action.BLOCK) if count >= rule.block else None


def polls_after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the configured number of polls with one result."""
    if not record.kind.polls or not rule.nudge:
        return None
    count = window_at(history, record).unmoved(record.key)
    return trip(record, POLLS.mode, count, rule.nudge, Action.NUDGE) if count >= rule.nudge else None


def _of_one_call(rule: Rule) -> Bound:
    return {Counter.EQUAL: lowest(rule.nudge, rule.block)}


POLLS = Detector(
    poll_no_progress.ROW.mode,
    rule=Rule(nudge=0, block=10),
    before=polls_before,
    after=polls_after,
    may_trip_from=_of_one_call,
    refusal="{tool} was asked the same {before} times already.",
    nudge="{tool} was asked the same {count} times now: wait longer between checks, or say so.",
    advice=poll_no_progress.ROW.advice,
    title="same poll",
)

# --- J cycles of two calls in turn, whatever they return; a poll that moves begins a new row ---------------------


def alternation_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call that ends one lap too many."""
    if not rule.block or record.kind is Kind.STEP:
        return None
    laps = _alternating(window_at(history, record), record.key) // 2
    return trip(record, ALTERNATION.mode, laps, rule.block, Action.BLOCK, period=2) if laps >= rule.block else None


def alternation_after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the call that ends a lap."""
    if not rule.nudge or record.kind is Kind.STEP:
        return None
    laps = _alternating(window_at(history, record)) // 2
    return trip(record, ALTERNATION.mode, laps, rule.nudge, Action.NUDGE, period=2) if laps >= rule.nudge else None


def _alternating(window: CallWindow, *keys: int) -> int:
    """Return how many of the last calls are two different calls in turn. ``keys``: calls after those of the window."""
    row = list(keys)
    for call in window.latest():
        if len(row) >= 2 and call.key != row[-2]:
            break
        row.append(call.key)
        if call.moved:
            break
    return len(row) if len(row) >= 2 and row[0] != row[1] else 0


ALTERNATION = Detector(
    ping_pong.ROW.mode,
    rule=Rule(nudge=0, block=3),
    before=alternation_before,
    after=alternation_after,
    may_trip_from=_of_one_call,
    refusal="The same two calls were made in turn, {laps} times over.",
    nudge="The same two calls have now been made in turn {laps} times.",
)

# --- N equal calls in the window: ``equal_calls``. G calls in the window -----------------------------------------


def all_before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call that is too many in the window."""
    count = len(window_at(history, record)) + 1
    if not rule.block or count < rule.block:
        return None
    return trip(record, ALL.mode, count, rule.block, Action.BLOCK, reason="window")


ALL = Detector(
    global_circuit_breaker.ROW.mode,
    rule=Rule(nudge=0, block=30),
    before=all_before,
    may_trip_from=lambda rule: {Counter.CALLS: lowest(rule.block)},
    title="a call in too short a time",
    reasons={
        "window": Sentences(
            "{before} tool calls were made in too short a time.", "{count} tool calls were made in a short time."
        ),
    },
)
PRESET = Preset(
    "typed_window",
    rows=(UNKNOWN, POLLS, ALTERNATION, replace(equal_calls.ROW, rule=Rule(nudge=0, block=5)), ALL),
    settings={"action": "block", "records": "all", "window": 60.0, "refusal": "mode"},
)
