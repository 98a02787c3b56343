"""Count equal calls, whatever they return. Most systems do, and some count nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors import generic_repeat, lost
from otel_loopguard.engine.detectors.presets.window import window_at
from otel_loopguard.engine.detectors.row import Bound, Counter, Detector, lowest
from otel_loopguard.engine.detectors.trips import trip
from otel_loopguard.engine.vocabulary import Action, Kind, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.rule import Rule


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the call that is one too many in the window; ``abort`` ends the run instead."""
    if _is_exempt(history, record):
        return None
    count = window_at(history, record).equal(record.key) + 1
    if rule.abort and count >= rule.abort:
        return trip(record, ROW.mode, count, rule.abort, Action.ABORT)
    if rule.block and count >= rule.block:
        return trip(record, ROW.mode, count, rule.block, Action.BLOCK)
    return None


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the configured number of equal calls."""
    if not rule.nudge or _is_exempt(history, record):
        return None
    count = window_at(history, record).equal(record.key)
    return trip(record, ROW.mode, count, rule.nudge, Action.NUDGE) if count >= rule.nudge else None


def _is_exempt(history: History, record: Record) -> bool:
    """Return True for tools declared a step, and for polls if the policy has a mode for them."""
    if record.kind is Kind.STEP:
        return True
    return record.kind.polls and window_at(history, record).has_poll_mode


def may_trip_from(rule: Rule) -> Bound:
    """Bound this detector by the equal calls."""
    return {Counter.EQUAL: lowest(rule.nudge, rule.block, rule.abort)}


ROW = Detector(
    generic_repeat.ROW.mode,
    before=before,
    after=after,
    may_trip_from=may_trip_from,
    title="same call",
    refusal="{tool} was called with these arguments {before} times already.",
    nudge="{tool} has now been called {count} times with these arguments.",
    reasons=lost.ROW.reasons,
)
