"""``text_run``: an answer of the model ends in equal blocks, one after the other: it has got stuck in its own words.

It is seen when the next request has the answer, and is only observed: the text is written, and a model that reads it
again may go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.row import NEVER, About, Bound, Counter, Detector
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import Setting
from otel_loopguard.engine.vocabulary import Action, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.conversation_texts import ConversationTexts


def at_request(texts: ConversationTexts, rule: Rule) -> Trip | None:
    """Observe the blocks at the end of the last answer."""
    found = texts.blocks
    if found.is_judged or not rule.nudge or found.copies < rule.nudge or found.characters < rule.characters:
        return None
    return Trip(ROW.mode, "", found.copies, rule.nudge, Action.NUDGE)


def may_trip_from(_rule: Rule) -> Bound:
    """Bound this detector: no number of calls trips it."""
    return {Counter.CALLS: NEVER}


ROW = Detector(
    "text_run",
    rule=Rule(nudge=3, characters=500),
    settings={"characters": Setting.count("The characters that all equal blocks must have together.")},
    at_request=at_request,
    once_per="turn",
    may_trip_from=may_trip_from,
    refusal="An answer ended in {count} equal blocks.",
    nudge="Your last answer ended in {count} equal blocks.",
    advice="none",
    about=About(
        title="an answer that repeats itself",
        agent="writes the same block of text again and again in one answer",
        told="3rd block: observed",
        refused="-",
        precisely=("an answer ends in equal blocks, of 500 characters together", "3rd block: observed", "never"),
        cause="a small or strongly quantised model, no penalty on repetition, or no limit on the tokens of an answer",
    ),
)
