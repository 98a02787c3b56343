"""Messages of the user to a running turn: none is lost, merged with another or delivered twice."""

from __future__ import annotations

import gc
import json
import threading

import pytest

from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.vocabulary import USER_STOP, Action, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard


def make(turn, tool="read_file", result="same", **arguments):
    """Make one call from begin to end. Return the decision of the end, or the refusal."""
    call = ToolCall(tool, arguments)
    decision = turn.begin(call)
    return turn.end(call, Outcome(result)) if decision.runs else decision


def test_redelivered_messages_come_first_with_the_next_result():
    """Redelivered messages come separately, before newer ones."""
    turn = Guard().turn()
    words = [turn.say(text) for text in ("first", "second")]
    turn.redeliver(make(turn, path="a"))
    words.append(turn.say("third"))
    assert make(turn, path="b").message == "first\nsecond\nthird"
    assert not any(word.returned for word in words)


def test_messages_that_were_never_delivered_are_returned_one_by_one():
    """``close`` returns them, and each message object is marked."""
    turn = Guard().turn()
    words = [turn.say(text) for text in ("first", "second")]
    turn.redeliver(make(turn, path="a"))
    assert turn.close() == ["first", "second"]
    assert all(word.returned for word in words)


def test_a_redelivered_nudge_is_no_message_of_the_user():
    """A redelivered nudge comes with the next result and its tool's name, and ``close`` does not return it."""
    turn = Guard().turn()
    make(turn, path="a")
    turn.say("hurry")
    nudged = make(turn, path="a")
    assert nudged.action is Action.NUDGE
    turn.redeliver(nudged)
    assert make(turn, path="b").message.startswith("hurry\nAbout the earlier call of read_file: [loopguard] ")
    turn.redeliver(make(turn, path="a"))
    assert turn.close() == []


def test_all_stop_messages_are_delivered_in_order_with_earlier_messages():
    """The first refusal has all messages; later ones repeat those to stop and add new ones."""
    turn = Guard().turn()
    words = [turn.say("look at b"), turn.say("stop", stop=True), turn.say("now", stop=True)]
    assert make(turn, path="a").message == "look at b\nstop\nnow"
    words.append(turn.say("thank you"))
    assert make(turn, path="a").message == "stop\nnow\nthank you"
    assert turn.close() == []
    assert not any(word.returned for word in words)


def test_two_stop_messages_that_were_not_delivered_are_returned():
    """The second one does not replace the first."""
    turn = Guard().turn()
    words = [turn.say(text, stop=True) for text in ("stop", "really")]
    assert turn.close() == ["stop", "really"]
    assert all(word.returned for word in words)


def test_a_turn_that_is_over_accepts_no_message():
    """A message to a closed turn is not accepted, because no call would deliver it."""
    turn = Guard().turn()
    turn.close()
    word = turn.say("too late")
    assert not word
    assert word.returned


def test_a_message_during_close_is_returned_or_not_accepted():
    """A message from another thread is in the result of ``close``, or it was not accepted."""
    for _ in range(200):
        turn, words = Guard().turn(), []
        speaker = threading.Thread(target=lambda turn=turn, words=words: words.append(turn.say("now")))
        speaker.start()
        left = turn.close()
        speaker.join()
        assert bool(words[0]) == (left == ["now"])
        assert words[0].returned


def test_a_message_redelivered_after_close_is_returned():
    """A call that ends after its turn was closed loses no message."""
    turn = Guard().turn()
    word = turn.say("hurry")
    decision = make(turn, path="a")
    turn.close()
    turn.redeliver(decision)
    assert word.returned


def test_messages_of_a_dropped_turn_are_returned():
    """Messages of a turn are marked as returned if there is no more room for it."""
    guard = Guard()
    guard._turns._most = 2
    words = [guard.turn(name).say("anybody there?") for name in "abcd"]
    gc.collect()
    assert not any(word.returned for word in words), "a turn with a message stays as long as there is room for twice"
    guard.turn("e")
    gc.collect()
    assert [word.returned for word in words].count(True) == 1


@pytest.mark.parametrize("who", ["parent", "child"])
def test_a_message_is_delivered_with_the_next_result_of_either_turn(who):
    """A sub-agent with the next result delivers the message, and no other turn does."""
    turn = Guard().turn()
    call = ToolCall("run_agent", {"task": "look"})
    turn.begin(call)
    child = turn.child(call)
    (turn if who == "parent" else child).say("look at b")
    assert make(child, path="a").message == "look at b"
    child.close()
    assert turn.end(call, Outcome("report")).message is None


def test_a_message_that_a_nested_turn_did_not_deliver_waits_for_the_outer_turn():
    """The outer turn delivers the message after the nested turn is closed without returning it."""
    turn = Guard().turn()
    call = ToolCall("run_agent", {"task": "look"})
    turn.begin(call)
    child = turn.child(call)
    word = turn.say("look at b")
    assert child.close() == []
    assert not word.returned
    assert turn.end(call, Outcome("report")).message == "look at b"


def test_a_word_to_stop_stops_nested_runs():
    """A stop applies to nested runs at any depth, to the running ones and to those that begin later."""
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
    """The trip has its own mode, the number of the refusal, and the limit at which the run ends."""
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
    """A stop is delivered with a refusal before the run is aborted, even after many refusals."""
    turn = Guard(Policy(abort_after=3)).turn()
    for _ in range(5):
        make(turn, path="a")
    turn.say("stop", stop=True)
    decisions = [make(turn, path="a") for _ in range(2)]
    assert [decision.action for decision in decisions] == [Action.BLOCK, Action.ABORT]
    assert decisions[0].message == "stop"


def test_words_wait_while_a_run_is_ended():
    """``close`` returns a message that was not delivered because the call aborted the run."""
    turn = Guard(Policy(abort_after=1)).turn()
    for _ in range(3):
        make(turn, path="a")
    turn.say("try b")
    assert make(turn, path="a").action is Action.ABORT
    assert turn.close() == ["try b"]


def test_words_come_with_an_earlier_result_too():
    """A model that gets an earlier result again still gets the user's messages."""
    turn = Guard(Policy(tools={"read_*": ToolContract(reuse=True)})).turn()
    for _ in range(2):
        make(turn, path="a")
    turn.say("try b")
    reused = make(turn, path="a")
    assert reused.action is Action.REUSE
    assert reused.message.startswith("try b\n")


def test_a_sentence_that_waited_is_read_with_a_refusal():
    """A redelivered nudge comes with a refusal too, and the refusal stays valid JSON."""
    turn = Guard().turn()
    make(turn, path="a")
    turn.redeliver(make(turn, path="a"))
    assert "About the earlier call" in json.loads(make(turn, path="a").message)["note"]


def test_a_decision_without_notes_has_nothing_to_redeliver():
    """The turn is settled as before."""
    turn = Guard().turn()
    turn.redeliver(make(turn, path="a"))
    assert turn.is_settled


def test_refusals_by_a_stop_conclude_the_turn_when_it_is_time():
    """Though the model reads of the stop with that refusal; not before."""
    turn = Guard(Policy(conclude_after=2)).turn()
    turn.say("stop", stop=True)
    seen = [(make(turn, path=path).action, turn.conclusion_due) for path in "ab"]
    assert seen == [(Action.BLOCK, False), (Action.CONCLUDE, True)]
    turn = Guard(Policy(conclude_after=1)).turn()
    turn.say("stop", stop=True)
    assert make(turn, path="a").action is Action.CONCLUDE


def test_words_wait_while_a_run_is_ended_by_a_stop():
    """The error has no place for them."""
    turn = Guard(Policy(abort_after=1)).turn()
    turn.say("stop", stop=True)
    make(turn, path="a")
    turn.say("and write no file")
    assert make(turn, path="b").action is Action.ABORT
    assert turn.close() == ["and write no file"]


def test_a_stop_that_comes_while_a_call_runs_is_read_with_its_result():
    """The nudge about it stays what it is, also if ``on_trip`` is asked about it."""
    turn = Guard(Policy(on_trip=lambda _: None)).turn()
    call = ToolCall("read_file", {"path": "a"})
    turn.begin(call)
    turn.end(call, Outcome("text"))
    turn.begin(call)
    turn.say("stop", stop=True)
    decision = turn.end(call, Outcome("text"))
    assert decision.action is Action.NUDGE
    assert decision.trip.mode != USER_STOP
    assert decision.message.startswith("stop")
