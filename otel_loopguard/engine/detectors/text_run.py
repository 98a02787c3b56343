"""``text_run``: an answer of the model ends in equal blocks, one after the other: it has got stuck in its own words.

It is seen while the model writes, or when the next request has the answer, and is only observed: a model that reads it
again may go on. A policy may cut the stream: with the mode's ``action = "abort"``, at ``block`` blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.row import NEVER, About, Bound, Counter, Detector
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import Setting
from otel_loopguard.engine.vocabulary import Action, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.conversation_texts import ConversationTexts
    from otel_loopguard.engine.history.text_blocks import Blocks


def at_request(texts: ConversationTexts, rule: Rule) -> Trip | None:
    """Observe the blocks at the end of the last answer."""
    found = texts.blocks
    if found.is_judged or not rule.nudge or found.copies < rule.nudge or found.characters < rule.characters:
        return None
    return Trip(ROW.mode, "", found.copies, rule.nudge, Action.NUDGE)


def at_reply(blocks: Blocks, rule: Rule) -> Trip | None:
    """Observe the blocks at the end of what is written so far. End the run only if the mode's own action says so."""
    copies, characters = blocks.copies, blocks.characters
    if rule.action is Action.ABORT and rule.block and copies >= rule.block and characters >= rule.cut_characters:
        return Trip(ROW.mode, "", copies, rule.block, Action.ABORT, Action.ABORT)
    if not rule.nudge or copies < rule.nudge or characters < rule.characters:
        return None
    return Trip(ROW.mode, "", copies, rule.nudge, Action.NUDGE)


def may_trip_from(_rule: Rule) -> Bound:
    """Bound this detector: no number of calls trips it."""
    return {Counter.CALLS: NEVER}


ROW = Detector(
    "text_run",
    rule=Rule(nudge=3, block=8, characters=500, cut_characters=2_000),
    settings={
        "characters": Setting.count("The characters that all equal blocks must have together."),
        "cut_characters": Setting.count('The same where a stream is cut: at `block` blocks, with `action = "abort"`.'),
    },
    at_request=at_request,
    at_reply=at_reply,
    once_per="turn",
    may_trip_from=may_trip_from,
    refusal="The answer ended in {count} equal blocks.",
    nudge="Your last answer ended in {count} equal blocks.",
    advice="none",
    about=About(
        title="an answer that repeats itself",
        agent="writes the same block of text again and again in one answer",
        told="3rd block: observed",
        refused='8th block: the stream is cut, only with `action = "abort"`',
        precisely=(
            "an answer ends in equal blocks, of 500 characters together",
            "3rd block: observed",
            'never; the stream is cut with `action = "abort"`, at the 8th block and 2,000 characters',
        ),
        cause="a small or strongly quantised model, no penalty on repetition, or no limit on the tokens of an answer",
    ),
)
