"""``no_novelty``: many calls in a row without news, in any shape: sweeps done twice, long cycles, toggles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.row import About, Bound, Counter, Detector, Sentences, lowest
from otel_loopguard.engine.detectors.trips import refusal, trip, unchanged
from otel_loopguard.engine.history.evidence import strength
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import Setting
from otel_loopguard.engine.vocabulary import OVER_TURNS, Action, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse a repeat that would reach the limit of calls in a row without news, if nothing changed since it last ran.

    Calls that prove little count less than 1.
    """
    if not rule.block or history.no_news_in_row + 1 < rule.block or record.stats is None:
        return None
    count = history.no_news_in_row + strength(record, same=True)
    if count < rule.block or not record.kind.is_evidence or not unchanged(history, record):
        return None
    return refusal(history, record, ROW.mode, int(count), rule.block)


def after(history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the limit of calls in a row without news."""
    count = int(history.no_news_in_row)
    if not rule.nudge or count < rule.nudge or record.news or not record.kind.is_evidence:
        return None
    return trip(record, ROW.mode, count, rule.nudge, Action.NUDGE)


def may_trip_from(rule: Rule) -> Bound:
    """Bound this detector by the calls without news: failed calls, thoughts, and repeats."""
    return {Counter.VAIN: lowest(rule.nudge, rule.block)}


ROW = Detector(
    "no_novelty",
    rule=Rule(nudge=5, block=8, turns=10),
    settings={
        "turns": Setting.count(
            'With `scope = "conversation"`, turns in a row that made calls and brought the conversation nothing new, '
            "at which the next one is reported, without a word to the model; again at 2x, 4x."
        ),
    },
    before=before,
    after=after,
    untried=False,
    judges_news=False,
    once_per="turn",
    may_trip_from=may_trip_from,
    refusal="The last {before} calls brought nothing new, and this one has been made before.",
    nudge="The last {count} calls brought nothing new.",
    reasons={
        OVER_TURNS: Sentences(
            nudge="The last {count} turns of this conversation brought nothing new. If there is nothing to do, say so.",
            advice="none",
        )
    },
    about=About(
        title="calls without anything new",
        agent="makes calls without anything new, in any order",
        told="5th",
        refused="8th",
        precisely=(
            "calls in a row bring no news, in any shape",
            "5th",
            "8th, if nothing changed since that call last ran",
        ),
        cause="the agent has all it needs and does not notice",
    ),
)
