"""What the user says while a turn runs: no word is lost, glued to another, or delivered twice."""

from __future__ import annotations

import gc
import json
import threading

import pytest

from otel_loopguard.core.guard import Guard
from otel_loopguard.core.model import Action, Outcome, ToolCall
from otel_loopguard.core.policy.policy import Policy, ToolContract
from otel_loopguard.core.turn.turn import USER_STOP


def make(turn, tool="read_file", result="same", **arguments):
    """One call from begin to end; the decision that has something to say."""
    call = ToolCall(tool, arguments)
    decision = turn.begin(call)
    return turn.end(call, Outcome(result)) if decision.runs else decision


def test_words_that_had_no_place_come_first_with_the_next_result():
    """Each by itself, before what was said since."""
    turn = Guard().turn()
    words = [turn.say(text) for text in ("first", "second")]
    turn.redeliver(make(turn, path="a"))
    words.append(turn.say("third"))
    assert make(turn, path="b").message == "first\nsecond\nthird"
    assert not any(word.returned for word in words)


def test_words_that_never_had_a_place_come_back_each_by_itself():
    """At the turn's end, and to who said them."""
    turn = Guard().turn()
    words = [turn.say(text) for text in ("first", "second")]
    turn.redeliver(make(turn, path="a"))
    assert turn.close() == ["first", "second"]
    assert all(word.returned for word in words)


def test_a_nudge_that_had_no_place_is_no_word_of_the_users():
    """It is said with the next result, with the name of its tool, and never given back as the user's."""
    turn = Guard().turn()
    make(turn, path="a")
    turn.say("hurry")
    nudged = make(turn, path="a")
    assert nudged.action is Action.NUDGE
    turn.redeliver(nudged)
    assert make(turn, path="b").message.startswith("hurry\nAbout the earlier call of read_file: [loopguard] ")
    turn.redeliver(make(turn, path="a"))
    assert turn.close() == []


def test_every_word_to_stop_is_heard_in_order_with_what_was_said_before():
    """The first refusal says all of it; later ones repeat the words to stop, and say what is new."""
    turn = Guard().turn()
    words = [turn.say("look at b"), turn.say("stop", stop=True), turn.say("now", stop=True)]
    assert make(turn, path="a").message == "look at b\nstop\nnow"
    words.append(turn.say("thank you"))
    assert make(turn, path="a").message == "stop\nnow\nthank you"
    assert turn.close() == []
    assert not any(word.returned for word in words)


def test_two_words_to_stop_that_nobody_heard_come_back():
    """The second does not take the place of the first."""
    turn = Guard().turn()
    words = [turn.say(text, stop=True) for text in ("stop", "really")]
    assert turn.close() == ["stop", "really"]
    assert all(word.returned for word in words)


def test_a_turn_that_is_over_takes_no_word():
    """Nobody would ever read it."""
    turn = Guard().turn()
    turn.close()
    word = turn.say("too late")
    assert not word
    assert word.returned


def test_a_word_is_delivered_or_comes_back_whenever_it_is_said():
    """Said while the turn is being closed, it is in the answer of ``close`` or not taken."""
    for _ in range(200):
        turn, words = Guard().turn(), []
        speaker = threading.Thread(target=lambda turn=turn, words=words: words.append(turn.say("now")))
        speaker.start()
        left = turn.close()
        speaker.join()
        assert bool(words[0]) == (left == ["now"])
        assert words[0].returned


def test_what_is_taken_back_when_the_turn_is_over_comes_back():
    """A call that ends after its turn was closed loses no word."""
    turn = Guard().turn()
    word = turn.say("hurry")
    decision = make(turn, path="a")
    turn.close()
    turn.redeliver(decision)
    assert word.returned


def test_words_of_a_forgotten_turn_come_back():
    """A store that has no more room for a turn loses it, and not what was said into it."""
    guard = Guard()
    guard._turns._most = guard._turns._most_unstored = 1
    word = guard.turn("a").say("anybody there?")
    assert not word.returned
    guard.turn("b")
    gc.collect()
    assert word.returned


@pytest.mark.parametrize("who", ["parent", "child"])
def test_a_word_is_delivered_with_the_next_result_of_either(who):
    """Where a sub-agent runs it may be the sub-agent's next result, and is no other's then."""
    turn = Guard().turn()
    call = ToolCall("run_agent", {"task": "look"})
    turn.begin(call)
    child = turn.child(call)
    (turn if who == "parent" else child).say("look at b")
    assert make(child, path="a").message == "look at b"
    child.close()
    assert turn.end(call, Outcome("report")).message is None


def test_a_word_that_a_nested_turn_did_not_deliver_waits_for_the_one_around_it():
    """It ends without giving it back."""
    turn = Guard().turn()
    call = ToolCall("run_agent", {"task": "look"})
    turn.begin(call)
    child = turn.child(call)
    word = turn.say("look at b")
    assert child.close() == []
    assert not word.returned
    assert turn.end(call, Outcome("report")).message == "look at b"


def test_a_word_to_stop_stops_nested_runs():
    """Those that run already and those that begin later, however deep."""
    turn = Guard().turn()
    call = ToolCall("run_agent", {"task": "look"})
    turn.begin(call)
    child = turn.child(call)
    inner = ToolCall("run_agent", {"task": "deeper"})
    child.begin(inner)
    turn.say("stop", stop=True)
    assert make(child.child(inner), path="a").action is Action.BLOCK
    assert make(child, path="a").action is Action.BLOCK
    assert make(turn.child(call), path="a").message == "stop"


def test_a_refusal_by_the_users_word_is_a_trip():
    """With a mode of its own, the number of the refusal, and the limit at which the run ends."""
    turn = Guard(Policy(abort_after=2)).turn()
    turn.say("stop", stop=True)
    trips = [make(turn, path=number).trip for number in range(3)]
    assert {trip.mode for trip in trips} == {USER_STOP}
    assert [(trip.count, trip.limit, trip.verdict, trip.action) for trip in trips] == [
        (1, 2, Action.BLOCK, Action.BLOCK),
        (2, 2, Action.BLOCK, Action.BLOCK),
        (3, 2, Action.ABORT, Action.ABORT),
    ]


def test_a_run_is_not_ended_before_its_model_has_heard_the_user():
    """However many refusals there were before the user said stop."""
    turn = Guard(Policy(abort_after=3)).turn()
    for _ in range(5):
        make(turn, path="a")
    turn.say("stop", stop=True)
    decisions = [make(turn, path="a") for _ in range(2)]
    assert [decision.action for decision in decisions] == [Action.BLOCK, Action.ABORT]
    assert decisions[0].message == "stop"


def test_words_wait_while_a_run_is_ended():
    """The error that ends it is no place for them: they come back."""
    turn = Guard(Policy(abort_after=1)).turn()
    for _ in range(3):
        make(turn, path="a")
    turn.say("try b")
    assert make(turn, path="a").action is Action.ABORT
    assert turn.close() == ["try b"]


def test_words_come_with_an_earlier_result_too():
    """A model that is given the same result again and again still hears its user."""
    turn = Guard(Policy(tools={"read_*": ToolContract(reuse=True)})).turn()
    for _ in range(2):
        make(turn, path="a")
    turn.say("try b")
    reused = make(turn, path="a")
    assert reused.action is Action.REUSE
    assert reused.message.startswith("try b\n")


def test_a_sentence_that_waited_is_read_with_a_refusal():
    """Also one of ours; the refusal stays valid JSON."""
    turn = Guard().turn()
    make(turn, path="a")
    turn.redeliver(make(turn, path="a"))
    assert "About the earlier call" in json.loads(make(turn, path="a").message)["user"]
