"""``nested_repeat``: an agent hands its own task on, to a copy of itself, which hands it on again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.row import NEVER, About, Bound, Counter, Detector
from otel_loopguard.engine.detectors.trips import trip
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History


def before(_history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse a call that is made inside of two equal ones that still run.

    Each copy of the agent has a history of its own, in which this call is the first one. Inside of one equal call it
    may be the tool behind a front of the same name.
    """
    if not record.around or not record.kind.is_evidence:
        return None
    count = record.around + 1
    for limit, verdict in ((rule.block, Action.BLOCK), (rule.nudge, Action.NUDGE)):
        if limit and count >= limit:
            return trip(record, ROW.mode, count, limit, verdict)
    return None


def may_trip_from(_rule: Rule) -> Bound:
    """Leave recorded calls out: a recording does not tell which call runs inside of which."""
    return {Counter.CALLS: NEVER}


ROW = Detector(
    "nested_repeat",
    rule=Rule(nudge=0, block=3),
    before=before,
    may_trip_from=may_trip_from,
    refusal="You are inside of {before} equal calls of {tool}, which wait. Do the task yourself, or say why not.",
    nudge="This call of {tool} was made inside of an equal one, which waits for it. Do such a task yourself.",
    advice="none",
    about=About(
        title="a task that is handed on and on",
        agent="hands its own task on to a copy of itself",
        told="-",
        refused="3rd",
        precisely=(
            "a call is made inside of an equal one that still runs, by an agent that was started for it",
            "-",
            "3rd, counted from the outermost",
        ),
        cause="an agent is among its own tools, and its instructions tell it to delegate",
    ),
)
