"""``retry_limit``: a tool's declared cap for the turn. No default cap: caps cannot tell work from loops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.detectors.row import About, Bound, Counter, Detector, lowest
from otel_loopguard.engine.detectors.trips import trip
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import Setting
from otel_loopguard.engine.vocabulary import Action, Record, Trip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.history.history import History

SHARE = Setting.share(
    "The share of the cap (retry_limit), or of `max_calls` (global_circuit_breaker, where calls are counted), at which "
    "the model is nudged."
)


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the first call beyond the cap."""
    count = history.calls_of(record) + 1
    return trip(record, ROW.mode, count, rule.cap, Action.BLOCK) if count > rule.cap else None


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at three quarters of the cap."""
    if not rule.nudge_at_share:
        return None
    count = history.calls_of(record)
    due = math.ceil(rule.cap * rule.nudge_at_share) <= count <= rule.cap
    return trip(record, ROW.mode, count, rule.cap, Action.NUDGE) if due else None


def declared(contract: Any, _policy: Any) -> Mapping[str, Any]:
    """Return the setting of this mode that a tool's contract gives: the cap."""
    return {"cap": contract.cap}


def concerns(tool: Any, _policy: Any) -> bool:
    """Return True if the tool has a cap."""
    return tool.contract.cap is not None


def may_trip_from(rule: Rule) -> Bound:
    """Bound this detector by the calls of one tool."""
    return {Counter.OF_TOOL: lowest(rule.cap + 1, math.ceil(rule.cap * (rule.nudge_at_share or 0)))}


ROW = Detector(
    "retry_limit",
    rule=Rule(nudge_at_share=0.75),
    settings={"nudge_at_share": SHARE},
    declared=declared,
    before=before,
    after=after,
    concerns=concerns,
    counts_calls=True,
    once_per="tool",
    may_trip_from=may_trip_from,
    refusal="{tool} may be called {limit} times in a turn, and has been.",
    nudge="{count} of the {limit} calls of {tool} that a turn may make are used up.",
    is_declared=True,
    about=About(
        title="the tool's cap is used up",
        agent="uses up a tool's cap (declared)",
        told="75 %",
        refused="cap",
        precisely=("the declared cap of a tool", "75 %", "cap"),
        cause="the cap is too low for the work, or the agent takes no other way",
    ),
)
