"""``unknown_tool_repeat``: the model calls tools that do not exist, by any name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.row import About, Bound, Counter, Detector, Sentences, lowest
from otel_loopguard.engine.detectors.trips import trip
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the third call to an unregistered tool since a registered tool last succeeded."""
    if record.registered is not False or not rule.block or record.resolved.tool.digest in history.unknown_answered:
        return None
    count, may_exist = history.unknown_calls + 1, history.open_registry
    if count < rule.block:
        return None
    reason = "unregistered" if may_exist else ""
    return trip(record, ROW.mode, count, rule.block, Action.BLOCK, insistable=may_exist, reason=reason)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the second failed call to an unregistered tool."""
    count = history.unknown_calls
    if record.registered is not False or not record.error or not rule.nudge or count < rule.nudge:
        return None
    return trip(record, ROW.mode, count, rule.nudge, Action.NUDGE)


def may_trip_from(rule: Rule) -> Bound:
    """Bound this detector by the calls of tools that do not exist."""
    return {Counter.UNKNOWN: lowest(rule.nudge, rule.block)}


ROW = Detector(
    "unknown_tool_repeat",
    rule=Rule(nudge=2, block=3),
    before=before,
    after=after,
    judges_news=False,
    once_per="turn",
    may_trip_from=may_trip_from,
    refusal="There is no tool named {tool}; this is call {count} to a tool that does not exist.",
    nudge="There is no tool named {tool}.",
    reasons={
        "unregistered": Sentences("No tool named {tool} is registered; this is call {count} to one that is not."),
    },
    advice="nearest",
    about=About(
        title="tools that do not exist",
        agent="calls tools that do not exist",
        told="2nd",
        refused="3rd",
        precisely=("tools that do not exist", "2nd", "3rd"),
        cause="see [unknown tools](unknown-tools.md)",
    ),
)
