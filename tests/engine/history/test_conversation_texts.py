"""The texts of a conversation: what counts as the same answer again, and what is new."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.history.conversation_texts import ConversationTexts, Heard, folded, user_text
from otel_loopguard.engine.history.text_blocks import NO_BLOCKS

LONG = "i have done all that was asked, and nothing is left"


def told(*events: str) -> ConversationTexts:
    """The texts of a conversation: ``u:`` a message of the user, ``a:`` an answer, ``c`` a call, ``t:`` its result."""
    texts = ConversationTexts()
    for event in events:
        kind, _, text = event.partition(":")
        if kind == "a":
            texts.said(folded(text), len(folded(text)))
        elif kind == "u":
            texts.asked(*user_text(text))
        elif kind == "t":
            texts.result(text)
        else:
            texts.called()
    return texts


def test_an_answer_counts_again_after_a_message_that_came_before():
    """The hook's first message was new; from the second one on each round is one more."""
    rounds = [f"a:{LONG}", "u:go on"]
    assert [told("u:do it", *rounds * n).answer.times for n in range(1, 6)] == [0, 1, 2, 3, 4]


def test_blanks_and_case_make_no_other_answer():
    """Such answers differ in nothing that a reader would see."""
    rounds = [f"a:{LONG}", "u:go on", f"a:{LONG.title()}", "u:go on", f"a: {LONG.replace(' ', '  ')}", "u:go on"]
    assert told("u:go on", *rounds).answer.times == 3


def test_a_hook_that_counts_its_rounds_sends_the_same_message():
    """Digits of a message are no news; those of an answer are."""
    hooked = [part for n in range(4) for part in (f"a:{LONG}", f"u:blocked {n} times")]
    assert told("u:do it", *hooked).answer.times == 3
    counted = [part for n in range(4) for part in (f"a:{LONG} {n}", "u:go on")]
    assert told("u:do it", *counted).answer.times == 1


@pytest.mark.parametrize(
    "asked",
    [
        [f"is {number} a prime number?" for number in (3, 7, 11, 13)],
        [f"{fail} tests fail, {passed} pass" for fail, passed in ((9, 1), (7, 2), (4, 3), (2, 4))],
    ],
    ids=["questions", "two numbers"],
)
def test_other_numbers_in_a_message_are_news(asked):
    """Only a message in which one number is one more counts its rounds."""
    rounds = [part for text in asked for part in ("a:Yes.", f"u:{text}")]
    assert told("u:do it", *rounds).answer.times == 0
    assert told("u:do it", *rounds).user.times == 1


def test_times_in_a_message_are_no_news():
    """A hook says how long its tests took, and when."""
    hooks = [f"u:2026-11-29T12:00:{n + 10}Z: 3 tests failed in 0.{n * 37 % 90}s" for n in range(4)]
    assert told("u:do it", *[part for hook in hooks for part in (f"a:{LONG}", hook)]).answer.times == 3


def test_an_answer_after_calls_that_no_message_has_is_one_beside_calls():
    """A program may read the calls from the model's words, and write their results as the user's."""
    texts, asked = ConversationTexts(), Heard(None, (), (), user_text("pending"))
    for _ in range(4):
        texts.hear([Heard((LONG, len(LONG), NO_BLOCKS), (), (), None), asked], has_run=True)
    assert (texts.answer.times, texts.answer.beside_calls) == (3, True)
    assert texts.user.times == 1


@pytest.mark.parametrize("new", [["u:why?"], ["c", "t:a new result"]], ids=["a message", "a result"])
def test_what_is_new_begins_the_count_again(new):
    """An answer after it is the first one, and before the next answer there is no repeat."""
    rounds = [f"a:{LONG}", "u:go on"]
    assert told("u:go on", *rounds * 4, *new).answer.times == 0
    assert told("u:go on", *rounds * 4, *new, *rounds).answer.times == 1


def test_a_result_that_came_before_is_not_new():
    """A call in vain between two equal answers begins no new count. An agent may be woken to look, so it is marked."""
    rounds = ["c", "t:nothing found", f"a:{LONG}", "u:go on"]
    assert told("u:go on", *rounds * 4).answer == (4, True, False)
    assert told("u:go on", *rounds * 4, *rounds[2:] * 2).answer == (3, False, False)


def test_a_short_answer_counts_with_the_message_before_it():
    """``Done.`` answers many questions; to the same question it is the same answer."""
    assert told("u:go on", *["a:Done.", "u:go on"] * 4).answer.times == 4
    assert told("u:a", "u:b", *["u:a", "a:Done.", "u:b", "a:Done."] * 2, "u:b").answer.times == 2


def test_words_beside_calls_count_by_themselves():
    """They are told apart from answers, and short ones are not judged."""
    beside = told("u:do it", *[f"a:{LONG}", "c", "t:x"] * 4)
    assert (beside.answer.times, beside.answer.beside_calls) == (3, True)
    assert told("u:do it", *["a:Let me look.", "c", "t:x"] * 4).answer.times == 0


def test_the_same_message_counts_until_a_call_comes():
    """Whatever was answered."""
    rounds = [part for n in range(4) for part in (f"a:{LONG} {'x' * n}", "u:go on")]
    assert told("u:do it", *rounds).user.times == 4
    assert told("u:do it", *rounds, "c").user.times == 0
    assert told("u:do it", *rounds, "c", "t:x", "u:go on").user.times == 1


def test_what_was_judged_is_marked_until_it_comes_again():
    """A request that is sent again reports nothing twice."""
    texts = told("u:go on", *[f"a:{LONG}", "u:go on"] * 3)
    texts.judged()
    assert (texts.answer.is_judged, texts.user.is_judged) == (True, True)
    texts.said(LONG, len(LONG))
    texts.asked(*user_text("go on"))
    assert (texts.answer.times, texts.answer.is_judged, texts.user.is_judged) == (4, False, False)


def test_a_long_conversation_keeps_a_bounded_number_of_keys():
    """The oldest are forgotten; what repeats now is counted all the same."""
    many = [part for n in range(3_000) for part in (f"a:{LONG} {n}", f"u:{chr(19968 + n)}", "c", f"t:{n}")]
    texts = told(*many, *[f"a:{LONG}", "u:go on"] * 4)
    assert texts.answer.times == 3
    assert max(map(len, (texts._answers, texts._users, texts._results))) <= 1_024
