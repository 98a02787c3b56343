"""``context_loop``: told at the third replacement of the history in a row, asked for an answer at the fifth."""

from __future__ import annotations

import pytest

from otel_loopguard import Guard, Policy
from otel_loopguard.engine.history.conversation_texts import ConversationTexts


def judged(between, policy=None, *, effects=0):
    """The trips of nine replacements, before each of which these results come, and so many effects."""
    turn, texts, found = Guard(policy or Policy()).turn(), ConversationTexts(), []
    texts.asked("do it")
    for number in range(1, 10):
        for result in between:
            texts.called()
            texts.result(result.format(number))
        texts.replaced("turn", effects * number)
        trip = turn.asking(texts)
        if trip is not None:
            found.append((number, str(trip.action)))
            if trip.action.name == "ABORT":
                break
            turn.conclude()
    return found


@pytest.mark.parametrize("between", [[], ["a file", "another file"]], ids=["nothing", "the same files"])
def test_the_third_in_a_row_is_told_and_at_the_fifth_an_answer_is_asked_for(between):
    """Reading again what was read before is nothing new. A model that goes on is ended."""
    assert judged(between) == [(3, "nudge"), (5, "conclude"), (6, "abort")]


def test_a_result_or_an_effect_in_between_begins_the_count_again():
    """An agent that works has its history replaced a hundred times."""
    assert judged(["file {}"]) == []
    assert judged(["ok"], effects=1) == []


def test_the_effects_of_another_turn_are_counted_from_nothing():
    """A turn that has had none has done nothing, whatever the one before has done."""
    texts = ConversationTexts()
    for turn, effects in (("a", 7), ("b", 0), ("b", 0), ("c", 1)):
        texts.replaced(turn, effects)
        times = texts.replacement.times
        assert times == {"a": 1, "c": 1}.get(turn, times)
    texts.replaced("c", 1)
    assert texts.replacement.times == 2


@pytest.mark.parametrize(
    ("policy", "trips"),
    [
        ({"modes": {"context_loop": {"nudge": 2, "block": 0}}}, [(2, "nudge"), (4, "nudge"), (8, "nudge")]),
        ({"action": "observe"}, [(3, "observe"), (5, "observe")]),
        ({"conclude_after": 0}, [(3, "nudge"), (5, "abort")]),
        ({"abort_after": 0}, [(3, "nudge"), (5, "conclude")]),
        ({"modes": {"context_loop": {"action": "off"}}}, []),
    ],
    ids=str,
)
def test_the_policy_has_the_word(policy, trips):
    """Limits, the ceiling, and the steps to the end."""
    assert judged([], Policy(**policy)) == trips
