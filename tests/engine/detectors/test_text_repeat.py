"""``text_repeat``: told at the third equal answer without calls, ended at the fifth; the other repeats are observed."""

from __future__ import annotations

import pytest

from otel_loopguard import Guard, Policy
from otel_loopguard.engine.history.conversation_texts import ConversationTexts

ANSWER = "i have done all that was asked, and nothing is left"


def judged(rounds, policy=None, *, answer=ANSWER, call=False, hook="go on") -> list[tuple[int, str, int, str]]:
    """The trips of a conversation, each with the round after which it came: an answer, maybe a call, then the hook."""
    guard, texts, found = Guard(policy or Policy()), ConversationTexts(), []
    texts.asked("do it")
    texts.asked("go on")
    for number in range(1, rounds + 1):
        texts.said(answer.format(number), len(answer))
        if call:
            texts.called()
            texts.result("nothing found")
        else:
            texts.asked(hook.format(number))
        trip = guard.turn().asking(texts)
        if trip is not None:
            found.append((number, trip.reason, trip.count, str(trip.action)))
            if trip.action.name == "ABORT":
                break
    return found


def test_the_third_answer_is_told_and_the_fifth_ends_the_run():
    """At the default limits."""
    assert judged(9) == [(3, "", 3, "nudge"), (5, "", 5, "abort")]


def test_four_are_no_reason_to_end_a_run():
    """The model has read the sentence, and may go on."""
    assert judged(4) == [(3, "", 3, "nudge")]


def test_answers_in_other_words_are_no_repeat():
    """The hook's message is, and is only observed."""
    assert judged(9, answer=f"{ANSWER} {{}}") == [(2, "hook", 3, "observe"), (5, "hook", 6, "observe")]


def test_a_new_message_each_time_is_no_loop():
    """Equal answers to ever new messages: the user may ask for them."""
    assert judged(9, hook="{:c}") == []


def test_words_beside_calls_are_observed_at_the_third():
    """Nothing ends them: the calls are judged by the other modes."""
    assert judged(12, call=True) == [
        (4, "beside_calls", 3, "observe"), (7, "beside_calls", 6, "observe"),
    ]  # fmt: skip


def test_an_agent_that_is_woken_to_look_may_answer_the_same_for_ever():
    """It makes a call each time, and finds what it found before: that is observed."""
    turn, texts, found = Guard().turn(), ConversationTexts(), []
    for _ in range(13):
        texts.asked("anything new?")
        texts.called()
        texts.result("no new mail")
        texts.said(ANSWER, len(ANSWER))
        texts.asked("anything new?")
        trip = turn.asking(texts)
        found += [] if trip is None else [(trip.reason, trip.count, str(trip.action))]
    assert found == [("beside_calls", 3, "observe"), ("beside_calls", 6, "observe"), ("beside_calls", 12, "observe")]


@pytest.mark.parametrize(
    ("policy", "actions"),
    [
        ({"modes": {"text_repeat": {"nudge": 2, "block": 4}}}, [(2, "nudge"), (4, "abort")]),
        ({"modes": {"text_repeat": {"action": "nudge"}}}, [(3, "nudge"), (5, "nudge"), (10, "nudge")]),
        ({"action": "observe"}, [(3, "observe"), (5, "observe"), (10, "observe")]),
        ({"abort_after": 0}, [(3, "nudge"), (5, "nudge"), (10, "nudge")]),
        ({"action": "off"}, []),
        ({"order": ["generic_repeat"]}, []),
        ({"counting": "calls"}, []),
    ],
    ids=str,
)
def test_the_policy_has_the_word(policy, actions):
    """Limits, the ceiling, whether runs are ended, and which modes run. Below the end it is due at each doubling."""
    found = judged(11, Policy(**policy))
    assert [(count, action) for _, reason, count, action in found if not reason] == actions


def test_a_hook_is_told_and_ended_where_the_policy_says_so():
    """Whatever is answered."""
    policy = Policy(modes={"text_repeat": {"hook_nudge": 5, "hook_block": 8}})
    assert judged(12, policy, answer=f"{ANSWER} {{}}") == [(4, "hook", 5, "nudge"), (7, "hook", 8, "abort")]
