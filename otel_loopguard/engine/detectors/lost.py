"""Nudge when a call is made again and again because its result was cleared from the model's context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors import generic_repeat
from otel_loopguard.engine.detectors.row import Detector, Sentences, at_a_repeat
from otel_loopguard.engine.detectors.trips import trip
from otel_loopguard.engine.vocabulary import Action, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.rule import Rule

_TOLD = 3


def after(_history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge a call whose result the model has lost three times. No other mode judges the result of such a run."""
    if not rule.nudge or record.lost < _TOLD or not record.kind.is_evidence:
        return None
    return trip(record, ROW.mode, record.lost, _TOLD, Action.NUDGE, reason="lost")


ROW = Detector(
    generic_repeat.ROW.mode,
    after=after,
    judges_lost=True,
    may_trip_from=at_a_repeat,
    reasons={
        "lost": Sentences(
            nudge="You have read this {count} times and lost it to the context limit. Write down what you need.",
            advice="none",
        )
    },
)
