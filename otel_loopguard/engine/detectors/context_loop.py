"""``context_loop``: the beginning of the history is replaced again and again, and nothing is done in between.

A summary takes the place of what the model had read, it reads that again, and the context is full again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.row import NEVER, About, Bound, Counter, Detector
from otel_loopguard.engine.detectors.trips import is_doubled
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.conversation_texts import ConversationTexts


def at_request(texts: ConversationTexts, rule: Rule) -> Trip | None:
    """Tell the model of replacements in a row with nothing new in between, and ask it for an answer if it goes on."""
    found = texts.replacement
    if found.is_judged or not found.times:
        return None
    if rule.block and found.times >= rule.block:
        return Trip(ROW.mode, "", found.times, rule.block, Action.CONCLUDE, Action.CONCLUDE)
    if rule.nudge and is_doubled(found.times, rule.nudge):
        return Trip(ROW.mode, "", found.times, rule.nudge, Action.NUDGE, Action.NUDGE)
    return None


def may_trip_from(_rule: Rule) -> Bound:
    """Bound this detector: no number of calls trips it."""
    return {Counter.CALLS: NEVER}


ROW = Detector(
    "context_loop",
    rule=Rule(nudge=3, block=5),
    at_request=at_request,
    once_per="turn",
    may_trip_from=may_trip_from,
    refusal="The beginning of this conversation was replaced {count} times, and nothing new was done in between.",
    nudge="The beginning of this conversation was replaced {count} times, and nothing new was done in between. Write "
    "down what you need from what you read, and go on from there.",
    advice="none",
    about=About(
        title="the history is replaced again",
        agent="has its history replaced, reads the same again and fills the context again",
        told="3rd",
        refused="5th: an answer is asked for",
        precisely=(
            "the beginning of the history is replaced by something shorter, with no new result, effect or message in "
            "between",
            "3rd in a row",
            "5th in a row: an answer is asked for; then the run ends",
        ),
        cause="results that fill the context at once, or a summary that leaves out what was read",
    ),
)
