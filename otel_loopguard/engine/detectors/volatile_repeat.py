"""``volatile_repeat``: one call is repeated, and only numbers and ids in its results are new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.row import About, Detector, Sentences, at_a_repeat
from otel_loopguard.engine.detectors.trips import refusal, trip, unchanged
from otel_loopguard.engine.history.evidence import Reason
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import Setting
from otel_loopguard.engine.vocabulary import Action, Record, Sameness, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the twentieth run that is *alike*, with no change in between."""
    stats = record.stats
    if stats is None or not rule.block or stats.alike + 1 < rule.block:
        return None
    if not record.kind.is_evidence or not unchanged(history, record):
        return None
    return refusal(history, record, ROW.mode, stats.alike + 1, rule.block)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the fifth run that is *alike*, and at the eighth equal call in a row, whatever it returned."""
    stats, limit = record.stats, record.limit
    if stats is None or limit is None or not record.kind.is_evidence or record.concurrent:
        return None
    if record.sameness is Sameness.ALIKE and rule.nudge and stats.alike >= rule.nudge:
        return trip(record, ROW.mode, stats.alike, rule.nudge, Action.NUDGE)
    patient = limit.reason is Reason.PATIENT or record.waited
    due = (rule.nudge_any_result or 0) * (4 if record.news else 3 if patient else 1)
    if not due or history.streak < due or history.last_key != record.key:
        return None
    return trip(record, ROW.mode, history.streak, due, Action.NUDGE, reason="any_result")


ROW = Detector(
    "volatile_repeat",
    rule=Rule(nudge=5, block=20, nudge_any_result=8),
    settings={
        "nudge_any_result": Setting.count(
            "Calls in a row, with any results, after which the model is nudged; 3 times that for calls that wait, 4 "
            "times for results that are new."
        ),
    },
    before=before,
    after=after,
    untried=False,
    judges_news=False,
    may_trip_from=at_a_repeat,
    refusal="{tool} was called {before} times with these arguments; only ids and numbers differed.",
    nudge="This is call {count} with these arguments; only ids and numbers differ in what it returns.",
    reasons={"any_result": Sentences(nudge="This is at least call {count} with the same arguments.")},
    about=About(
        title="same except ids and times",
        agent="gets results in which only ids and numbers are new",
        told="5th",
        refused="20th",
        precisely=(
            "one call gets results in which only ids and numbers are new; one call runs in a row, whatever it returns",
            "5th; 8th, or 32nd if its results are new",
            "20th; never",
        ),
        cause="the agent has all it needs and does not notice",
    ),
)
