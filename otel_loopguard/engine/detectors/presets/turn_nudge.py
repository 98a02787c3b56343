"""``turn_nudge``: the third identical call of a turn gets one warning, once a turn; a turn makes at most 30 calls.

The model is told when three quarters of the calls are used up. One call carries one warning, so that one may come with
the next call.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors import global_circuit_breaker
from otel_loopguard.engine.detectors.presets import equal_calls
from otel_loopguard.engine.detectors.presets.preset import Preset
from otel_loopguard.engine.detectors.row import Bound, Counter, Sentences, lowest
from otel_loopguard.engine.detectors.trips import trip
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge once the configured share of the turn's budget is used up."""
    if not rule.nudge_at_share:
        return None
    count, limit = history.calls, history.most_calls
    due = math.ceil(limit * rule.nudge_at_share) <= count < limit
    return trip(record, BUDGET.mode, count, limit, Action.NUDGE, reason="budget") if due else None


def may_trip_from(rule: Rule) -> Bound:
    """Bound this detector by the calls of the turn."""
    return {Counter.CALLS: lowest(rule.max_calls + 1, math.ceil(rule.max_calls * (rule.nudge_at_share or 0)))}


BUDGET = replace(
    global_circuit_breaker.BUDGET,
    rule=Rule(nudge=0, block=0, nudge_at_share=0.75, once=True),
    settings=global_circuit_breaker.ROW.settings,
    after=after,
    may_trip_from=may_trip_from,
    refusal=global_circuit_breaker.ROW.refusal,
    nudge=global_circuit_breaker.ROW.nudge,
    advice=global_circuit_breaker.ROW.advice,
    reasons={
        **global_circuit_breaker.BUDGET.reasons,
        "budget": Sentences(nudge="{count} of the {limit} tool calls that this turn may make are used up."),
    },
)
PRESET = Preset(
    "turn_nudge",
    rows=(replace(equal_calls.ROW, rule=Rule(nudge=3, block=0, once=True)), BUDGET),
    settings={"action": "block", "records": "ran", "max_calls": 30},
)
