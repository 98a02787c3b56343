"""A message of the user to a shared turn is read once, by whichever process the store gives it to."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.errors import NotStoredError
from otel_loopguard.store import background
from tests.store.memory import FlakyStore
from tests.store.processes import SAME, Process, check_messages, settle


def test_a_message_of_the_user_is_delivered_by_one_process():
    """`say` reaches the next result, in whichever process; no other process delivers it again."""
    log = FlakyStore()
    one, other, third = (Process(log) for _ in range(3))
    one.call(arguments={"n": 1})
    message = one.turn.say("use the other file")
    assert other.call(arguments={"n": 2})[1].message == "use the other file"
    assert third.call(arguments={"n": 3})[1].message is None
    assert one.call(arguments={"n": 4})[1].message is None
    assert message.delivered


def test_a_message_to_stop_refuses_the_calls_of_every_process():
    """Each refusal has the message."""
    log = FlakyStore()
    one, other = Process(log), Process(log)
    one.call(arguments={"n": 1})
    one.turn.say("stop, that is done", stop=True)
    for process in (other, one, Process(log)):
        refused, _ = process.call(arguments={"n": 2})
        assert not refused.runs
        assert refused.message == "stop, that is done"


def test_a_message_waits_for_a_turn_that_begins_later(no_pauses):
    """The store may be empty when the process of the message looks first, and have the agent's turn later."""
    log = FlakyStore()
    web = Process(log).guard.shared_turn("turn:one", begins=False)
    early = web.say("early")
    assert not early.stored
    Process(log).call()
    web.say("late")
    assert early.stored


def test_a_message_that_no_call_followed_is_returned_at_the_end():
    """It is in the log, and nothing will deliver it."""
    turn = Process(FlakyStore()).guard.shared_turn("conversation:c")
    call = ToolCall("read_file", {"path": "a.txt"})
    turn.begin(call)
    turn.end(call, SAME)
    message = turn.say("use the other file")
    assert turn.close() == ["use the other file"]
    assert message.returned


def test_a_message_that_other_processes_have_waits_for_the_store():
    """One of them may have given it to the model."""
    log = FlakyStore()
    one = Process(log)
    one.call(arguments={"n": 1})
    call = ToolCall("read_file", {"n": 2})
    one.turn.begin(call)
    message = one.turn.say("use the other file")
    log.faults = ["refused"]
    assert one.turn.end(call, Outcome("two")).message is None
    assert message.status == "stored"
    assert one.call(arguments={"n": 3}, outcome=Outcome("three"))[1].message == "use the other file"


def said_during_a_call():
    """A store, two processes, and a running call of the first one, which knows what the other one said meanwhile."""
    log = FlakyStore()
    one, other = Process(log), Process(log)
    call = ToolCall("read_file", {"n": 1})
    one.turn.begin(call)
    other.turn.say("use the other file")
    check_messages(one.turn)
    return log, one, other, call


def said_while_away(unanswered):
    """A store that leaves so many requests unanswered, two processes, and what one of them said meanwhile."""
    log = FlakyStore()
    one, other = Process(log), Process(log)
    one.call(arguments={"n": 1})
    log.faults = ["timed out"] * unanswered
    one.call(arguments={"n": 2})
    return log, one, other, one.turn.say("use the other file")


def test_a_message_that_comes_while_the_store_is_away_is_read_here_at_once():
    """No other process can have it, then or later."""
    log, one, other, message = said_while_away(5)
    assert one.call(arguments={"n": 3}, outcome=Outcome("three"))[1].message == "use the other file"
    log.faults = []
    assert other.call(arguments={"n": 4}, outcome=Outcome("four"))[1].message is None
    assert message.delivered


def test_a_message_that_came_while_the_store_was_away_is_given_to_any_process_later():
    """Its own may make no further call."""
    log, one, other, message = said_while_away(3)
    log.faults = []
    for _ in range(500):
        check_messages(one.turn)
        if message.stored and not message.is_own:
            break
    assert other.call(arguments={"n": 4}, outcome=Outcome("four"))[1].message == "use the other file"
    check_messages(one.turn)
    assert message.delivered


def test_a_message_that_a_lost_answer_gave_to_a_process_is_read_once():
    """The store has the write that took it, and no process had an answer. The first one hands it on when it knows."""
    log, one, other, call = said_during_a_call()
    log.faults = ["timed out"]
    assert one.turn.end(call, Outcome("one")).message is None
    later = []
    for number in range(2, 6):
        settle()
        process = (other, one)[number % 2]
        later.append(process.call(arguments={"n": number}, outcome=Outcome(f"result {number}"))[1].message)
    assert [text for text in later if text] == ["use the other file"]


def test_a_message_that_the_store_has_lost_is_read_by_nobody_and_its_sender_is_told(caplog):
    """Another process may have given it to the model before."""
    log = FlakyStore()
    one, other = Process(log), Process(log)
    one.call(arguments={"n": 1})
    message = one.turn.say("use the other file")
    log.cells.clear()
    for number, process in enumerate((other, one, Process(log)), 2):
        assert process.call(arguments={"n": number}, outcome=Outcome(str(number)))[1].message is None
    assert message.returned
    assert not message.delivered
    assert "say it again" in caplog.text.lower()


def test_a_message_is_given_back_if_nobody_waits_for_its_call_any_more():
    """A task that is cancelled while the store answers, as by a time limit of the program."""
    _, one, _, call = said_during_a_call()

    async def end():
        task = asyncio.ensure_future(one.turn.aend(call, Outcome("one")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(end())
    later = []
    for number in range(2, 5):
        settle()
        later.append(one.call(arguments={"n": number}, outcome=Outcome(str(number)))[1].message)
    assert [text for text in later if text] == ["use the other file"]


def test_a_stop_holds_in_a_turn_that_was_replaced_before():
    """Its process learns so when it stores the message."""
    log = FlakyStore()
    first, second = Process(log).guard, Process(log).guard
    call = ToolCall("read_file", {"n": 1})
    first.shared_turn("conversation:c", "one").begin(call)
    second.shared_turn("conversation:c", "two").begin(call)
    late = Process(log).guard.shared_turn("conversation:c", "one")
    late.say("stop", stop=True)
    assert late.begin(ToolCall("read_file", {"n": 2})).message == "stop"


def test_a_stop_for_a_turn_does_not_stop_the_next_one():
    """Its sender knows the conversation, and learns of the next turn when it stores the message."""
    log = FlakyStore()
    first, second, sender = (Process(log).guard for _ in range(3))
    call = ToolCall("read_file", {"n": 1})
    first.shared_turn("conversation:c", "one").begin(call)
    turn = sender.shared_turn("conversation:c", begins=False)
    background.wait(turn.cell.check_messages(turn))
    new = second.shared_turn("conversation:c", "two")
    new.begin(call)
    with contextlib.suppress(NotStoredError):
        turn.say("stop", stop=True)
    assert new.begin(ToolCall("read_file", {"n": 2})).runs


def test_a_message_after_a_loss_is_read_although_others_learn_of_the_loss_later():
    """It was said when the store had its new state."""
    log = FlakyStore()
    one, other = Process(log), Process(log)
    one.call(arguments={"n": 1})
    other.call(arguments={"n": 2})
    log.cells.clear()
    one.call(arguments={"n": 3})
    one.turn.say("use the other file")
    assert other.call(arguments={"n": 4}, outcome=Outcome("four"))[1].message == "use the other file"


def test_a_message_to_a_nested_turn_is_one_to_its_shared_turn():
    """Any process may deliver it."""
    log = FlakyStore()
    one, other = Process(log), Process(log)
    call = ToolCall("agent", {"n": 1})
    one.turn.begin(call)
    message = one.turn.child(call).say("use the other file")
    assert message.stored
    assert other.call(arguments={"n": 2}, outcome=Outcome("two"))[1].message == "use the other file"


def test_a_message_waits_in_a_shared_turn_for_the_end_of_a_nested_one():
    """The nested turn does not ask the store who delivers it."""
    log = FlakyStore()
    one = Process(log)
    call, inner = ToolCall("agent", {"n": 1}), ToolCall("read_file", {"n": 2})
    one.turn.begin(call)
    one.turn.say("use the other file")
    nested = one.turn.child(call)
    nested.begin(inner)
    assert nested.end(inner, Outcome("two")).message is None
    assert one.turn.end(call, Outcome("one")).message == "use the other file"


def test_a_message_for_a_call_that_ended_without_the_log_is_delivered_with_a_later_one():
    """The log was not answering when the call ended, so that its process did not know of the message."""
    log = FlakyStore()
    one, other = Process(log), Process(log)
    call = ToolCall("read_file", {"n": 1})
    one.turn.begin(call)
    other.turn.say("use the other file")
    log.faults = ["timed out"]
    assert one.turn.end(call, Outcome("one")).message is None
    later = [one.call(arguments={"n": number}, outcome=Outcome(f"result {number}"))[1] for number in (2, 3)]
    assert [decision.message for decision in later].count("use the other file") == 1


def test_a_message_to_a_turn_that_was_replaced_is_returned():
    """Its sender only knows the conversation. The next turn of that does not get it."""
    log = FlakyStore()
    first, sender = Process(log).guard.shared_turn("conversation:c"), Process(log).guard
    call = ToolCall("read_file", {"path": "a.txt"})
    first.begin(call)
    turn = sender.shared_turn("conversation:c", begins=False)
    message = turn.say("use the other file")
    second = Process(log).guard.shared_turn("conversation:c")
    second.begin(call)
    background.wait(turn.cell.check_messages(turn))
    assert second.end(call, SAME).message is None
    assert message.returned


def test_a_message_that_was_said_on_an_event_loop_before_the_first_call_is_delivered():
    """Its sender could not ask whether a turn runs, so it looks for one until it finds it."""
    log = FlakyStore()
    sender, one = Process(log).guard, Process(log)

    async def say():
        return sender.shared_turn("turn:one", begins=False).say("use the other file")

    message = asyncio.run(say())
    one.call(arguments={"n": 1})
    for _ in range(500):
        if message.stored:
            break
        background.wait(asyncio.sleep(0.01))
    assert one.call(arguments={"n": 2}, outcome=Outcome("two"))[1].message == "use the other file"


@pytest.mark.parametrize("stop", [False, True])
def test_a_message_that_another_process_has_delivered_is_not_read_again_on_an_event_loop(stop):
    """Sync code there asks the store before it gives the model a message."""
    log = FlakyStore()
    one, other = Process(log), Process(log)
    one.call(arguments={"n": 1})
    call = ToolCall("read_file", {"n": 2})
    one.turn.begin(call)
    if stop:
        other.turn.say("stop", stop=True)
    other.turn.say("use the other file")
    background.wait(one.turn.cell.check_messages(one.turn))
    assert "use the other file" in (other.call(arguments={"n": 3}, outcome=Outcome("three"))[not stop].message)

    async def end():
        if stop:
            return one.turn.begin(ToolCall("read_file", {"n": 4}))
        return one.turn.end(call, Outcome("two"))

    assert "use the other file" not in (asyncio.run(end()).message or "")
