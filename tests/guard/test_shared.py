"""A turn that several processes share decides as one turn in one process does."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.engine.policy.policy import Policy, Rule, ToolContract
from otel_loopguard.engine.words import Action, Outcome, ToolCall
from otel_loopguard.guard import shared
from otel_loopguard.guard.guard import Guard
from tests.guard.list_log import ListLog

KEY = b"k" * 16
SAME = Outcome("the same old text")


class Process:
    """One process of several: a guard of its own with the same policy, and its copy of the turn."""

    def __init__(self, log, policy=None, clock=lambda: 1.0) -> None:
        self.guard = Guard(policy or Policy(hash_key=KEY), log=log, clock=clock)

    @property
    def turn(self):
        """The copy of the turn."""
        return self.guard.shared_turn("turn:one", "SECRET-id")

    def call(self, tool="read_file", arguments=None, outcome=SAME, **more):
        """Make a call, and return the decisions before and after it."""
        call = ToolCall(tool, arguments or {"path": "a.txt"}, **more)
        decision = self.turn.begin(call)
        return (decision, self.turn.end(call, outcome)) if decision.runs else (decision, None)


def actions(decisions):
    """Return the actions before and after a call."""
    return tuple(None if one is None or one.action is None else str(one.action) for one in decisions)


def test_a_loop_whose_steps_run_in_three_processes_is_refused_as_in_one():
    """Each call is made by another process, and the third is refused."""
    log = ListLog()
    processes = [Process(log) for _ in range(3)]
    assert [actions(process.call()) for process in processes] == [(None, None), (None, "nudge"), ("block", None)]


def test_a_begin_is_one_append_and_an_end_is_one():
    """Also in a process that has not met the turn before."""
    log = ListLog()
    Process(log).call()
    assert log.appends == 2
    Process(log).call()
    assert log.appends == 4


LONG = "words that fill the result of a tool until it is no longer brief, because that matters to some modes; "
TOOLS = ["read_file", "write_file", "next_page", "bash", "get_status", "frobnicate", "wait", "think"]
RESULTS = [
    "ok", "", "[]", LONG, LONG + "id 8f14e45fceea167a", LONG + "id c9f0f895fb98ab91", LONG + "at 10:31",
    "No file matches 'x'", "Error: no such file", "still pending", {"done": True}, ["a", 2], "half a surrogate \ud800",
    None,
]  # fmt: skip
POLICIES = {
    "default": {},
    "observe": {"action": "observe"},
    "counts calls": {"counting": "calls"},
    "budget": {"max_calls": 6},
    "concludes": {"conclude_after": 1, "abort_after": 3},
    "early rows": {"modes": {"same_answer": Rule(nudge=2, block=3), "error_repeat": Rule(nudge=1, block=2)}},
    "contracts": {"tools": {"read_*": ToolContract(cap=3), "write_*": ToolContract(once=True)}},
}
outcomes = st.one_of(
    st.sampled_from(RESULTS).map(Outcome),
    st.sampled_from(["no such file", TimeoutError("slow")]).map(lambda error: Outcome(error=error)),
    st.booleans().map(lambda cancelled: Outcome("ok", cancelled=cancelled)),
)
calls = st.fixed_dictionaries(
    {
        "pause": st.sampled_from([0.0, 0.0, 0.5, 11.0, 400.0]),
        "tool": st.sampled_from(TOOLS),
        "arguments": st.sampled_from([{"path": "a.txt"}, {"path": "b.txt"}, {"query": "q"}, None]),
        "known": st.sampled_from([None, TOOLS, ["read_file"]]),
    }
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("call"), calls, outcomes),
        st.tuples(st.just("begin"), calls, st.none()),
        st.tuples(st.just("end"), st.integers(0, 5), outcomes),
        st.tuples(st.just("observe"), calls, outcomes),
        st.tuples(st.just("row"), calls, outcomes),
        st.tuples(st.just("new process"), st.none(), st.none()),
    ),
    max_size=40,
)


def varied(outcome, number):
    """Return the outcome with another id in its text."""
    text = outcome.result
    return outcome._replace(result=f"{text} (request 4f2a9c{number:02}b7e1)") if type(text) is str else outcome


class Session:
    """A turn that is driven by drawn steps, by one process or by several in turns; notes all decisions."""

    def __init__(self, policy, processes) -> None:
        self.now = 5_000.0
        self.policy = policy
        clock = lambda: self.now  # noqa: E731 - a clock
        self.log = ListLog(clock)
        if processes:
            self.processes = [Process(self.log, policy, clock) for _ in range(processes)]
            self.turns = [process.turn for process in self.processes]
        else:
            self.turns = [Guard(policy, clock=clock).turn("one")]
        self.clock = clock
        self.shared = bool(processes)
        self.running = []
        self.decisions = []

    def run(self, steps):
        """Run the steps; each is made by the next process, and a call ends where it began."""
        for number, (step, what, outcome) in enumerate(steps):
            place = number % len(self.turns)
            if step == "new process":
                if self.shared:
                    self.turns[place] = Process(self.log, self.policy, self.clock).turn
            elif step == "end":
                if self.running:
                    turn, call = self.running.pop(what % len(self.running))
                    self.note(turn.end(call, outcome))
            else:
                for place_in_row in range(5 if step == "row" else 1):
                    self.now += 1 / 128 + what["pause"]  # exact, also as the sum of a time and a difference
                    arguments = {"place": place_in_row} if step == "row" else what["arguments"]
                    call = ToolCall(what["tool"], arguments, f"id-{number}-{place_in_row}", what["known"])
                    ends_with = varied(outcome, place_in_row) if step == "row" else outcome
                    self.make(self.turns[place], step, call, ends_with)
        return self.decisions

    def make(self, turn, step, call, outcome):
        """Make a call in one process."""
        if step == "observe":
            self.note(turn.observe(call, outcome, ran=0.001))
        elif self.note(turn.begin(call)).runs:
            if step == "begin":
                self.running.append((turn, call))
            else:
                self.now += 1 / 64
                self.note(turn.end(call, outcome))

    def note(self, decision):
        """Note a decision; a call that is cancelled has none worth comparing."""
        record = decision.record
        seen = None if record is None else (record.index, str(record.sameness), record.news, record.attempt)
        self.decisions.append((decision.action, decision.trip, decision.message, len(decision.recovered), seen))
        return decision


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=40, deadline=None)
@given(steps=steps, processes=st.integers(1, 3))
def test_shared_turns_decide_as_one_turn(policy, processes, steps):
    """Every decision, text and record is that of a turn in one process, whichever process makes a call."""
    policy = Policy(hash_key=KEY, **POLICIES[policy])
    assert Session(policy, processes).run(steps) == Session(policy, 0).run(steps)


@settings(max_examples=60, deadline=None)
@given(steps=steps, processes=st.integers(2, 3))
def test_a_copy_from_a_snapshot_is_equal_to_the_others(steps, processes):
    """With a snapshot after every few events, and processes that come later, each decision is that of one turn."""
    policy = Policy(hash_key=KEY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "_SNAPSHOT_EVERY", 3)
        several = Session(policy, processes).run(steps)
    assert several == Session(policy, 0).run(steps)


@settings(max_examples=60, deadline=None)
@given(steps=steps, faults=st.lists(st.sampled_from(["", "", "refused", "timed out"]), max_size=60))
def test_a_process_decides_alike_while_its_log_fails(steps, faults):
    """A log that cannot be used, or has done what it did not answer, changes no decision of the only process."""
    policy = Policy(hash_key=KEY)
    session = Session(policy, 1)
    session.log.faults = [fault or None for fault in faults]
    assert session.run([step for step in steps if step[0] != "new process"]) == Session(policy, 0).run(
        [step for step in steps if step[0] != "new process"]
    )


@pytest.mark.parametrize("fault", ["refused", "timed out"])
def test_an_event_that_was_not_answered_counts_once(fault):
    """It is sent again with the next one, and the log takes it if it has not yet."""
    log = ListLog()
    one, other = Process(log), Process(log)
    log.faults = [fault]
    assert actions(one.call()) == (None, None)
    assert actions(one.call()) == (None, "nudge")
    assert actions(other.call()) == ("block", None)
    assert other.turn.judge.history.judged == 3


def test_a_log_that_was_lost_begins_again_with_the_copy_of_the_first_process():
    """A server that was restarted empty gets the state of the process that calls first; the others follow it."""
    log = ListLog()
    one, other = Process(log), Process(log)
    one.call()
    other.call()
    log.logs.clear()
    assert actions(one.call()) == (None, "nudge")  # the call of the other one was not read before the loss
    assert actions(other.call()) == ("block", None)


def test_a_log_that_is_lost_while_it_cannot_be_used_begins_again_with_the_copy():
    """The calls that were judged in the process alone are not lost."""
    log = ListLog()
    one = Process(log)
    log.faults = ["refused", "refused"]
    one.call()
    assert not log.logs
    one.call()
    assert actions(Process(log).call()) == ("block", None)


def test_threads_of_two_processes_lose_no_call():
    """Eight threads make calls at once; each is counted once, and the copies are equal in the end."""
    log = ListLog()
    processes = [Process(log) for _ in range(2)]

    def work(process, number):
        for place in range(25):
            process.call(arguments={"n": number * 100 + place}, outcome=Outcome(f"result {number} {place}"))

    threads = [threading.Thread(target=work, args=(processes[number % 2], number)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for process in processes:
        process.call(arguments={"n": "last"})
    histories = [process.turn.judge.history for process in processes]
    assert [history.judged for history in histories] == [201, 202]
    assert histories[1].news == 201


def test_calls_of_one_event_loop_do_not_wait_for_each_other():
    """Async calls of one turn are appended while others wait for theirs; each has its own decision."""

    async def work():
        process = Process(ListLog())
        turn = process.turn

        async def one(number):
            call = ToolCall("read_file", {"n": number}, f"id-{number}")
            assert (await turn.abegin(call)).runs
            return (await turn.aend(call, Outcome(f"result {number}"))).record.news

        return await asyncio.gather(*(one(number) for number in range(20))), turn.judge.history

    news, history = asyncio.run(work())
    assert news == [True] * 20
    assert (history.judged, history.news) == (20, 20)


def test_a_cancelled_append_is_folded_later():
    """A task that is cancelled while it waits for the log leaves a call that has begun; the turn goes on."""

    async def work():
        process = Process(ListLog())
        turn = process.turn
        task = asyncio.ensure_future(turn.abegin(ToolCall("read_file", {"n": 1}, "id-1")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        call = ToolCall("read_file", {"n": 2}, "id-2")
        assert (await turn.abegin(call)).runs
        return turn.judge.history.judged

    assert asyncio.run(work()) == 2


def test_a_sync_call_on_an_event_loop_does_not_wait():
    """It is judged by the copy of the process, and sent later."""
    log = ListLog()
    process = Process(log)

    async def work():
        return actions(process.call())

    log.append = None
    assert asyncio.run(work()) == (None, None)
    del log.append
    assert actions(process.call()) == (None, "nudge")


def test_a_message_of_the_user_is_delivered_by_one_process():
    """`say` reaches the next result, in whichever process; no other process delivers it again."""
    log = ListLog()
    one, other, third = (Process(log) for _ in range(3))
    one.call(arguments={"n": 1})
    message = one.turn.say("use the other file")
    assert other.call(arguments={"n": 2})[1].message == "use the other file"
    assert third.call(arguments={"n": 3})[1].message is None
    assert one.call(arguments={"n": 4})[1].message is None
    assert message.delivered


def test_a_message_to_stop_refuses_the_calls_of_every_process():
    """Each refusal has the message."""
    log = ListLog()
    one, other = Process(log), Process(log)
    one.call(arguments={"n": 1})
    one.turn.say("stop, that is done", stop=True)
    for process in (other, one, Process(log)):
        refused, _ = process.call(arguments={"n": 2})
        assert not refused.runs
        assert refused.message == "stop, that is done"


def test_no_value_of_a_call_is_in_the_log():
    """Not of its arguments or its result, nor the name of a tool that does not exist, nor a message of the user."""
    log = ListLog()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "_SNAPSHOT_EVERY", 3)
        for number in range(6):
            process = Process(log)
            for _ in range(2):
                secret = {"path": "SECRET-1", "deep": ["SECRET-2"], "query": "SECRET-3", "number": 77123456}
                process.call(
                    arguments=secret, outcome=Outcome(f"SECRET-4 77654321 {number}", is_error=bool(number % 2))
                )
                process.call(tool="SECRET_tool", arguments=secret, known_tools=["read_file"])
            process.turn.say("SECRET-5")
    stored = b"".join(
        [entry.data for one in log.logs.values() for entry in one["entries"]]
        + [one["state"] or b"" for one in log.logs.values()]
    )
    assert b"read_file" in stored
    assert b"SECRET" not in stored
    assert b"77123456" not in stored
    assert b"77654321" not in stored


def test_a_turn_that_another_one_replaced_goes_on_alone():
    """Two runs of one conversation at once are two turns: the older one is judged in its process."""
    log = ListLog()
    one, other = Process(log).guard, Process(log).guard
    first = one.shared_turn("conversation:c")
    call = ToolCall("read_file", {"path": "a.txt"})
    for _ in range(2):
        first.begin(call)
        first.end(call, SAME)
    second = other.shared_turn("conversation:c")
    assert second.begin(call).runs
    assert first.begin(call).action is Action.BLOCK
    assert second.end(call, SAME).action is None


def test_a_resumed_run_goes_on_with_the_turn_of_another_process():
    """It has the history and the id of the turn."""
    log = ListLog()
    first = Process(log).guard.shared_turn("conversation:c")
    call = ToolCall("read_file", {"path": "a.txt"})
    for _ in range(2):
        first.begin(call)
        first.end(call, SAME)
    resumed = Process(log).guard.shared_turn("conversation:c", begins=False)
    assert resumed.begin(call).action is Action.BLOCK
    assert resumed.id == first.id


def test_a_new_turn_of_a_conversation_begins_with_no_evidence():
    """A second question may need the same call."""
    log = ListLog()
    guard = Process(log).guard
    for _ in range(4):
        turn = guard.shared_turn("conversation:c")
        call = ToolCall("read_file", {"path": "a.txt"})
        assert turn.begin(call).runs
        assert turn.end(call, SAME).message is None
        turn.close()


def test_an_observed_call_counts_once_whichever_processes_observe_it():
    """Each has the same decision about it, also a process that reads the whole conversation for the first time."""
    log = ListLog()
    made = [ToolCall("read_file", {"path": "a.txt"}, f"id-{number}") for number in range(4)]

    def observed(process, count):
        return [process.turn.observe(call, SAME) for call in made[:count]]

    one = observed(Process(log), 3)
    other = observed(Process(log), 4)
    assert [decision.message for decision in other[:3]] == [decision.message for decision in one]
    assert [decision.trip for decision in other[:3]] == [decision.trip for decision in one]
    assert other[3].trip.count == 4


def test_a_trip_is_the_first_of_its_turn_in_one_process_only():
    """So the turns with a trip can be counted by adding what the processes count."""
    log = ListLog()
    processes = [Process(log) for _ in range(4)]
    firsts = []
    for process in processes:
        decision, _ = process.call()
        if decision.trip is not None:
            firsts.append(str(process.turn.reach(decision.trip)))
    assert firsts == ["action", "no"]


def test_on_trip_is_asked_by_the_process_that_makes_the_call():
    """It may let a call run that the log has as refused; the end of it counts in every process."""
    log = ListLog()
    asked = []

    def on_trip(trip):
        asked.append(trip.count)
        return Action.OBSERVE

    policy = Policy(hash_key=KEY, on_trip=on_trip)
    one, other = Process(log, policy), Process(log)
    one.call()
    one.call()
    decision, _ = one.call()
    assert decision.runs
    assert asked == [2, 3]
    refused, _ = other.call()
    assert refused.trip.count == 4


def test_an_interrupted_fold_begins_again_from_the_log():
    """An exception of a signal handler in the midst of it loses nothing that the log has."""
    log = ListLog()
    one = Process(log)
    one.call()
    judge = one.turn.judge
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(judge), "judge", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            one.turn.begin(ToolCall("read_file", {"path": "a.txt"}))
    assert actions(one.call()) == (None, "nudge")
    assert actions(one.call()) == ("block", None)


def test_a_nested_turn_brings_news_of_its_call_in_every_process():
    """The history of the nested turn is in its process; its news counts for the call around it everywhere."""
    log = ListLog()
    one, other = Process(log), Process(log)
    for number in range(3):
        call = ToolCall("ask_agent", {"q": "the same"})
        assert one.turn.begin(call).runs
        inner = one.turn.child(call)
        inner_call = ToolCall("read_file", {"n": number})
        inner.begin(inner_call)
        inner.end(inner_call, Outcome(f"news {number}"))
        one.turn.end(call, SAME)
    assert other.call(tool="ask_agent", arguments={"q": "the same"})[0].runs
    assert other.turn.judge.history.calls == 7


@pytest.mark.parametrize("text", ["no new mail", "[2026-11-23T10:{:02}:00Z] no new mail, request 4f2a9c{:02}b7e1"])
def test_a_heartbeat_in_several_processes_is_reported_as_in_one(text):
    """Each turn is in another process; the memory of the conversation is in the log."""

    def reported(guard_of):
        found = {}
        for number in range(30):
            turn = guard_of(number).turn(conversation_id="inbox")
            call = ToolCall("check_mail", {"box": "in"})
            turn.begin(call)
            trip = turn.end(call, Outcome(text.format(number, number))).trip
            if trip is not None:
                found[number] = trip.count, str(turn.reach(trip))
            turn.close()
        return found

    policy = Policy(hash_key=KEY, scope="conversation")
    log, alone = ListLog(), Guard(policy)
    assert reported(lambda _: Guard(policy, log=log)) == reported(lambda _: alone) != {}


def test_a_turn_id_that_is_used_again_after_another_turn_stops_a_loop():
    """The other turn has the log, and nothing of its evidence counts: the turn is judged in its process."""
    log = ListLog()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "_SNAPSHOT_EVERY", 2)
        for turn_id in ("one", "other"):
            turn = Process(log).guard.shared_turn("conversation:c", turn_id)
            for _ in range(2):
                call = ToolCall("read_file", {"path": "a.txt"})
                turn.begin(call)
                turn.end(call, SAME)
        again = Process(log).guard.shared_turn("conversation:c", "one")
        actions = []
        for _ in range(4):
            call = ToolCall("read_file", {"path": "a.txt"})
            decision = again.begin(call)
            actions.append(decision.action)
            if decision.runs:
                again.end(call, SAME)
    assert actions == [None, None, Action.BLOCK, Action.BLOCK]


def test_a_message_that_no_call_followed_is_returned_at_the_end():
    """It is in the log, and nothing will deliver it."""
    turn = Process(ListLog()).guard.shared_turn("conversation:c")
    call = ToolCall("read_file", {"path": "a.txt"})
    turn.begin(call)
    turn.end(call, SAME)
    message = turn.say("use the other file")
    assert turn.close() == ["use the other file"]
    assert message.returned


def test_a_message_sent_after_the_log_was_lost_loses_no_evidence():
    """It waits for the snapshot with which the next call begins the log again."""
    log = ListLog()
    one = Process(log)
    one.call()
    one.call()
    log.logs.clear()
    one.turn.say("use the other file")
    refused, _ = one.call()
    assert refused.action is Action.BLOCK
    assert "use the other file" in refused.message


def test_a_fork_before_the_first_call_begins_the_turn_in_the_child():
    """The turn before it in the conversation is no evidence."""
    log = ListLog()
    before = Process(log).guard.shared_turn("conversation:c")
    call = ToolCall("read_file", {"path": "a.txt"})
    for _ in range(2):
        before.begin(call)
        before.end(call, SAME)
    guard = Process(log).guard
    turn = guard.shared_turn("conversation:c")
    guard.after_fork()
    assert turn.begin(call).runs


def test_a_turn_that_has_taken_over_an_id_can_be_stored():
    """Else a process that sends messages to many conversations would keep them all."""
    log = ListLog()
    guard = Process(log).guard
    guard._turns._most = 2
    for number in range(6):
        turn = Process(log).guard.shared_turn(f"conversation:{number}")
        turn.begin(ToolCall("read_file", {"path": "a.txt"}))
        found = guard.shared_turn(f"conversation:{number}", begins=False)
        assert found.runs_elsewhere()
        assert found.id == turn.id
    assert len(guard._turns._latest) == 2


def test_a_call_that_waits_while_the_log_fails_for_another_one_is_judged():
    """A sync call on an event loop does not use the log, between the first check of another call and its append."""
    process = Process(ListLog())
    turn = process.turn
    process.call(arguments={"n": 1})
    found = []

    async def work():
        process.call(arguments={"n": 2})

    with turn.lock:
        thread = threading.Thread(target=lambda: found.append(process.call(arguments={"n": 3})[0].runs))
        thread.start()
        while not turn._mine:
            time.sleep(0.001)
        time.sleep(0.01)
        asyncio.run(work())
    thread.join()
    assert found == [True]


def test_a_message_that_was_delivered_without_the_log_is_no_message_to_stop():
    """Not in a copy from a snapshot in which it still waits."""
    log = ListLog()
    one = Process(log)
    one.call(arguments={"n": 1})
    call = ToolCall("read_file", {"n": 2})
    one.turn.begin(call)
    one.turn.say("use the other file")
    log.faults = ["refused"]
    assert one.turn.end(call, Outcome("two")).message == "use the other file"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "_SNAPSHOT_EVERY", 1)
        one.turn.begin(ToolCall("read_file", {"n": 3}))
    assert Process(log).call(arguments={"n": 4})[0].runs


class HeldLog(ListLog):
    """Holds the replies to these calls until they are released."""

    def __init__(self, held) -> None:
        super().__init__()
        self.held = held

    async def aappend(self, key, ops, *, epoch, seen, snapshot=None):
        """Append at once, and return the reply late."""
        reply = self.append(key, ops, epoch=epoch, seen=seen, snapshot=snapshot)
        if self.held and reply is not None:
            event, self.held = self.held[0], self.held[1:]
            if event is not None:
                await event.wait()
        return reply


def test_replies_in_another_order_than_the_appends_lose_no_call():
    """The first reply to a process that comes late has a snapshot, and arrives after it has read further."""
    log = HeldLog([])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "_SNAPSHOT_EVERY", 3)
        before = Process(log)
        for number in range(4):
            before.call(arguments={"n": number})

    async def work():
        first, last = asyncio.Event(), asyncio.Event()
        turn = Process(log).turn

        async def begin(number):
            return (await turn.abegin(ToolCall("read_file", {"n": number}))).runs

        log.held = [first, None, None, last]
        tasks = [asyncio.ensure_future(begin(10))]
        await asyncio.sleep(0)
        assert await begin(11)
        assert await begin(12)
        tasks.append(asyncio.ensure_future(begin(13)))
        await asyncio.sleep(0)
        first.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        last.set()
        assert await asyncio.gather(*tasks) == [True, True]
        return turn.judge.history.judged

    assert asyncio.run(work()) == 8


def test_a_message_for_a_call_that_ended_without_the_log_is_delivered_with_a_later_one():
    """The log was not answering when the call ended, so that its process did not know of the message."""
    log = ListLog()
    one, other = Process(log), Process(log)
    call = ToolCall("read_file", {"n": 1})
    one.turn.begin(call)
    other.turn.say("use the other file")
    log.faults = ["timed out"]
    assert one.turn.end(call, Outcome("one")).message is None
    later = [one.call(arguments={"n": number}, outcome=Outcome(f"result {number}"))[1] for number in (2, 3)]
    assert [decision.message for decision in later].count("use the other file") == 1


def test_a_turn_that_is_replaced_goes_on_with_the_time_of_its_log():
    """The clock of the process is another one: no pause of the turn came before the next call."""
    log = ListLog()
    first = Process(log, clock=lambda: 900_000.0).guard.shared_turn("conversation:c")
    call = ToolCall("read_file", {"path": "a.txt"})
    for _ in range(2):
        first.begin(call)
        first.end(call, SAME)
    Process(log).guard.shared_turn("conversation:c").begin(call)
    assert first.begin(call).action is Action.BLOCK


def test_a_policy_that_judges_no_call_does_not_use_the_log():
    """Its turns are not shared."""
    log = ListLog()
    guard = Guard(Policy(hash_key=KEY, action=Action.OFF), log=log)
    for turn in (guard.turn("one"), guard.shared_turn("gateway:one", "two"), guard.turn(conversation_id="c")):
        call = ToolCall("read_file", {"path": "a.txt"})
        turn.begin(call)
        turn.end(call, SAME)
        assert not turn.is_shared
    assert log.appends == 0


def test_sync_calls_on_an_event_loop_do_not_send_all_calls_before_them():
    """Each arrives once, and what is sent with a call has a bound."""
    log = ListLog()
    process = Process(log)
    sent = []
    send_later = log.send_later

    def count(key, ops, **more):
        sent.append(len(ops))
        send_later(key, ops, **more)

    async def work():
        for number in range(100):
            process.call(arguments={"n": number}, outcome=Outcome(f"result {number}"))

    log.send_later = count
    asyncio.run(work())
    assert max(sent) <= 32
    other = Process(log)
    other.call(arguments={"n": "last"})
    assert other.turn.judge.history.judged == 101
