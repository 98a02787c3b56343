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
    """Refuse the twentieth run that is *alike* without a number never seen before, with no change in between."""
    stats = record.stats
    if stats is None or not rule.block or stats.alike + 1 < rule.block:
        return None
    if not record.kind.is_evidence or not unchanged(history, record):
        return None
    return refusal(history, record, ROW.mode, stats.alike + 1, rule.block)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the fifth run that is *alike*, at the tenth if its numbers are new, and at the eighth call in a row."""
    stats, limit = record.stats, record.limit
    if stats is None or limit is None or not record.kind.is_evidence or record.concurrent or not record.haste:
        return None
    if record.sameness is Sameness.ALIKE and rule.nudge:
        due, reason = (rule.nudge, "") if stats.alike >= rule.nudge else (2 * rule.nudge, "numbers")
        if stats.varied >= due:
            return trip(record, ROW.mode, stats.varied, due, Action.NUDGE, reason=reason)
    patient = limit.reason is Reason.PATIENT or record.waited
    due = (rule.nudge_any_result or 0) * (4 if record.news else 3 if patient else 1)
    if not due or history.streak < due or history.last_key != record.key:
        return None
    reason = "new_results" if record.news else "any_result"
    return trip(record, ROW.mode, history.streak, due, Action.NUDGE, reason=reason)


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
    refusal="{tool} was called {before} times with these arguments; only ids and numbers seen before differed.",
    nudge="This is call {count} with these arguments; only ids and numbers differ in what it returns.",
    reasons={
        "any_result": Sentences(nudge="This is at least call {count} with the same arguments."),
        "new_results": Sentences(nudge="This is at least call {count} with the same arguments.", advice="none"),
        "numbers": Sentences(
            nudge="This is call {count} with these arguments; only numbers are new in what it returns.", advice="none"
        ),
    },
    about=About(
        title="same except ids and times",
        agent="gets results in which only ids, and numbers seen before, differ",
        told="5th; 10th if the numbers are new",
        refused="20th; never if the numbers are new",
        precisely=(
            "one call gets results in which only ids and numbers differ; one call runs in a row, whatever it returns",
            "5th, or 10th if the numbers were never seen before; 8th, or 32nd if its results are new",
            "20th, never if the numbers are new; never",
        ),
        cause="the agent has all it needs and does not notice",
    ),
)
