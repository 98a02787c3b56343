"""``text_repeat``: the model gives the same answer again, with no result and no message that had not come before.

It judges requests, by the texts of their conversation. An answer beside calls is only observed: the calls are judged by
the other modes. The same message again, whatever is answered, is a hook's loop or a patient user: it is observed, too,
unless the policy has limits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors.row import NEVER, About, Bound, Counter, Detector, Sentences
from otel_loopguard.engine.detectors.trips import is_doubled
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import Setting
from otel_loopguard.engine.vocabulary import Action, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.conversation_texts import ConversationTexts, Repeat


def at_request(texts: ConversationTexts, rule: Rule) -> Trip | None:
    """Tell the model of an answer that came too often, and end the run if it goes on. Observe the other repeats."""
    answer, user = texts.answer, texts.user
    if not answer.beside_calls:
        trip = _trip(answer, rule.nudge, rule.block)
        if trip is not None:
            return trip
    trip = _trip(user, rule.hook_nudge, rule.hook_block, "hook")
    if trip is not None or (answer.times > 1 and not answer.beside_calls):  # the answer is what repeats
        return trip
    trip = _observed(answer, rule, "beside_calls") if answer.beside_calls else None
    return trip if trip is not None or rule.hook_nudge or rule.hook_block else _observed(user, rule, "hook")


def _trip(repeat: Repeat, nudge: int | None, block: int | None, reason: str = "") -> Trip | None:
    if repeat.is_judged:
        return None
    if block and repeat.times >= block:
        return Trip(ROW.mode, "", repeat.times, block, Action.ABORT, Action.ABORT, reason=reason)
    if nudge and repeat.times and is_doubled(repeat.times, nudge):
        return Trip(ROW.mode, "", repeat.times, nudge, Action.NUDGE, Action.NUDGE, reason=reason)
    return None


def _observed(repeat: Repeat, rule: Rule, reason: str) -> Trip | None:
    trip = _trip(repeat, rule.nudge, None, reason)
    return None if trip is None else trip._replace(action=Action.OBSERVE)


def may_trip_from(_rule: Rule) -> Bound:
    """Bound this detector: no number of calls trips it."""
    return {Counter.CALLS: NEVER}


ROW = Detector(
    "text_repeat",
    rule=Rule(nudge=3, block=5),
    settings={
        "hook_nudge": Setting.count("How often the same user message comes, without a call, until the model is told."),
        "hook_block": Setting.count("How often it comes until the run is ended."),
    },
    at_request=at_request,
    once_per="turn",
    may_trip_from=may_trip_from,
    refusal="The same answer was given {count} times, and nothing new came in between.",
    nudge="You have given this answer {count} times, and nothing new came in between. Do something different, or say "
    "what keeps you from it.",
    advice="none",
    reasons={
        "beside_calls": Sentences(),
        "hook": Sentences(
            "The same message came {count} times, without a call in between.",
            "This message has come {count} times, without a call in between. Do something different, or say what keeps "
            "you from it.",
        ),
    },
    about=About(
        title="the same answer again",
        agent="gives the same answer again, with nothing new in between",
        told="3rd",
        refused="5th: the run ends",
        precisely=(
            "the same text without calls, and no result or message of the user in between that had not come before",
            "3rd",
            "5th: the run ends",
        ),
        cause="a stop hook that the model cannot satisfy, or a program that sends its prompt again after each answer",
    ),
)
