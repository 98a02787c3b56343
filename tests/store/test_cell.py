"""A turn that several processes share decides as one turn in one process does."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.engine import decide
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from otel_loopguard.store import background, cell
from otel_loopguard.store.store import READ_ONLY
from tests.store.memory import FlakyStore
from tests.store.processes import KEY, SAME, Process, World, settle, shared


def actions(decisions):
    """Return the actions before and after a call."""
    return tuple(None if one is None or one.action is None else str(one.action) for one in decisions)


def test_a_loop_whose_steps_run_in_three_processes_is_refused_as_in_one():
    """Each call is made by another process, and the third is refused."""
    log = FlakyStore()
    processes = [Process(log) for _ in range(3)]
    assert [actions(process.call()) for process in processes] == [(None, None), (None, "nudge"), ("block", None)]


def test_a_begin_is_one_append_and_an_end_is_one():
    """Also in a process that has not met the turn before."""
    log = FlakyStore()
    Process(log).call()
    assert log.writes == 2
    Process(log).call()
    assert log.writes == 4


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
        self.log = FlakyStore(clock)
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
            self.note(turn.ran(call, outcome, took=0.001))
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
@given(steps=steps, faults=st.lists(st.sampled_from(["", "", "refused", "timed out"]), max_size=60))
def test_a_process_whose_store_fails_counts_each_call_once(steps, faults):
    """A swap that is refused, or was done and not answered, loses no call and doubles none."""
    session = Session(Policy(hash_key=KEY, action="off"), 1)
    session.policy = policy = Policy(hash_key=KEY, modes={"generic_repeat": Rule(block=0)})
    own = Session(policy, 0)
    session = Session(policy, 1)
    session.log.faults = [fault or None for fault in faults]
    steps = [step for step in steps if step[0] != "new process"]
    session.run(steps)
    own.run(steps)
    shared, alone = session.turns[0], own.turns[0]
    session.log.faults = []
    shared.begin(ToolCall("read_file", {"n": "last"}))
    alone.begin(ToolCall("read_file", {"n": "last"}))
    assert shared.current.history.judged == alone.current.history.judged


@pytest.mark.parametrize("fault", ["refused", "timed out"])
def test_an_event_that_was_not_answered_counts_once_and_proves_nothing(fault):
    """It is written with the next one, if it had not arrived. What was shown before it may have changed unseen."""
    log = FlakyStore()
    one, other = Process(log), Process(log)
    one.call()
    log.faults = [fault]
    assert one.call()[0].runs
    assert actions(other.call())[0] is None
    assert actions(other.call())[0] is None
    assert actions(one.call()) == ("block", None)
    assert other.turn.current.history.judged >= 4


def test_a_cell_that_was_lost_proves_nothing_and_begins_again_with_the_copy_of_a_process():
    """A server that was restarted empty gets the state of the process that calls first; the others follow it."""
    log = FlakyStore()
    one, other = Process(log), Process(log)
    one.call()
    one.call()
    log.cells.clear()
    assert one.call()[0].runs  # another process may have changed what this one reads
    one.call()
    assert [actions(other.call())[0], actions(other.call())[0]][-1] == "block"


def test_threads_of_two_processes_lose_no_call():
    """Eight threads make calls at once; each is counted once, and the copies are equal in the end."""
    log = FlakyStore()
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
    histories = [process.turn.current.history for process in processes]
    assert [history.judged for history in histories] == [201, 202]
    assert histories[1].news == 201


def test_calls_of_one_event_loop_do_not_wait_for_each_other():
    """Async calls of one turn are appended while others wait for theirs; each has its own decision."""

    async def work():
        process = Process(FlakyStore())
        turn = process.turn

        async def one(number):
            call = ToolCall("read_file", {"n": number}, f"id-{number}")
            assert (await turn.abegin(call)).runs
            return (await turn.aend(call, Outcome(f"result {number}"))).record.news

        return await asyncio.gather(*(one(number) for number in range(20))), turn.current.history

    news, history = asyncio.run(work())
    assert news == [True] * 20
    assert (history.judged, history.news) == (20, 20)


def test_a_cancelled_write_is_folded_later():
    """A task that is cancelled while it waits for the log leaves a call that has begun; the turn goes on."""

    async def work():
        process = Process(FlakyStore())
        turn = process.turn
        task = asyncio.ensure_future(turn.abegin(ToolCall("read_file", {"n": 1}, "id-1")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        call = ToolCall("read_file", {"n": 2}, "id-2")
        assert (await turn.abegin(call)).runs
        return turn.current.history.judged

    assert asyncio.run(work()) == 2


def test_a_sync_call_on_an_event_loop_does_not_wait():
    """It is judged by the copy of the process, and sent later."""
    log = FlakyStore()
    process = Process(log)

    async def work():
        return actions(process.call())

    assert asyncio.run(work()) == (None, None)
    assert actions(process.call()) == (None, "nudge")


def test_no_value_of_a_call_is_in_the_cell():
    """Not of its arguments or its result. Messages of the user are there, and the store seals all of it."""
    log = FlakyStore()
    for number in range(6):
        process = Process(log)
        for _ in range(2):
            secret = {"path": "SECRET-1", "deep": ["SECRET-2"], "query": "SECRET-3", "number": 77123456}
            text = f"SECRET-4 77654321 {number}"
            process.call(arguments=secret, outcome=Outcome(text, is_error=bool(number % 2)))
            process.call(tool="SECRET_tool", arguments=secret, known_tools=["read_file"])
    stored = b"".join(state for _, state in log.cells.values())
    assert b"history" in stored
    assert all(
        value not in stored
        for value in (b"SECRET-1", b"SECRET-2", b"SECRET-3", b"SECRET-4", b"SECRET_tool", b"7712345", b"7765432")
    )


def test_a_turn_that_another_one_replaced_goes_on_alone():
    """Two runs of one conversation at once are two turns: the older one is judged in its process."""
    log = FlakyStore()
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
    log = FlakyStore()
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
    log = FlakyStore()
    guard = Process(log).guard
    for _ in range(4):
        turn = guard.shared_turn("conversation:c")
        call = ToolCall("read_file", {"path": "a.txt"})
        assert turn.begin(call).runs
        assert turn.end(call, SAME).message is None
        turn.close()


def test_an_observed_call_counts_once_whichever_processes_observe_it():
    """Each has the same decision about it, also a process that reads the whole conversation for the first time."""
    log = FlakyStore()
    made = [ToolCall("read_file", {"path": "a.txt"}, f"id-{number}") for number in range(4)]

    def observed(process, count):
        return [process.turn.ran(call, SAME) for call in made[:count]]

    one = observed(Process(log), 3)
    other = observed(Process(log), 4)
    assert [decision.message for decision in other[:3]] == [decision.message for decision in one]
    assert [decision.trip for decision in other[:3]] == [decision.trip for decision in one]
    assert other[3].trip.count == 4


def test_a_trip_is_the_first_of_its_turn_in_one_process_only():
    """So the turns with a trip can be counted by adding what the processes count."""
    log = FlakyStore()
    processes = [Process(log) for _ in range(4)]
    firsts = []
    for process in processes:
        decision, _ = process.call()
        if decision.trip is not None:
            firsts.append(str(process.turn.reach(decision.trip)))
    assert firsts == ["action", "no"]


def test_on_trip_is_asked_by_the_process_that_makes_the_call():
    """It may let a call run that the log has as refused; the end of it counts in every process."""
    log = FlakyStore()
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


def test_a_fold_that_fails_begins_again_from_the_cell():
    """The call runs, and the fault is reported. It may have hidden a change, so all evidence before it is void."""
    log = FlakyStore()
    one = Process(log)
    one.call()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decide, "before", lambda *_: (_ for _ in ()).throw(ArithmeticError))
        assert one.turn.begin(ToolCall("read_file", {"path": "a.txt"})).runs
    assert one.turn.shield.seen == {"store.write"}
    assert actions(one.call()) == (None, None)
    assert actions(one.call()) == (None, "nudge")
    assert actions(one.call()) == ("block", None)


def test_no_call_waits_for_a_writer_that_does_not_come(monkeypatch):
    """A thread and a task go on, and get an error for the shield."""
    monkeypatch.setattr(cell, "_LONGEST_WAIT", 0.01)
    one = Process(FlakyStore())
    monkeypatch.setattr(one.turn.cell, "_start", lambda turn: None)
    with pytest.raises(concurrent.futures.TimeoutError):
        one.turn.begin(ToolCall("read_file", {"path": "a.txt"}))
    with pytest.raises(TimeoutError):
        asyncio.run(one.turn.abegin(ToolCall("read_file", {"path": "a.txt"})))


def test_a_nested_turn_brings_news_of_its_call_in_every_process():
    """The history of the nested turn is in its process; its news counts for the call around it everywhere."""
    log = FlakyStore()
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
    assert other.turn.current.history.calls == 7


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
    log, alone = FlakyStore(), Guard(policy)
    assert reported(lambda _: Guard(policy, store=log)) == reported(lambda _: alone) != {}


def test_a_conversation_in_several_processes_has_one_budget():
    """Each turn is in another process; what the earlier ones spent is in the store."""

    def made(guard_of):
        found = []
        for number in range(4):
            turn = guard_of(number).turn(conversation_id="chat")
            for path in "ab":
                call = ToolCall("read_file", {"path": f"{path}{number}"})
                decision = turn.begin(call)
                found.append(decision.runs)
                if decision.runs:
                    turn.end(call, Outcome(f"text of {path}{number}"))
            turn.finish()
            turn.close()
            settle()
        return found

    policy = Policy(hash_key=KEY, budget={"conversation": {"calls": 5}})
    log, alone = FlakyStore(), Guard(policy)
    expected = [True] * 5 + [False] * 3
    assert made(lambda _: alone) == made(lambda _: Guard(policy, store=log)) == expected


def test_a_turn_id_that_is_used_again_after_another_turn_stops_a_loop():
    """The other turn has the log, and nothing of its evidence counts: the turn is judged in its process."""
    log = FlakyStore()
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


def test_a_fork_before_the_first_call_begins_the_turn_in_the_child():
    """The turn before it in the conversation is no evidence."""
    log = FlakyStore()
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
    log = FlakyStore()
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
    process = Process(FlakyStore())
    turn = process.turn
    process.call(arguments={"n": 1})
    found = []

    async def work():
        process.call(arguments={"n": 2})

    with turn.lock:
        thread = threading.Thread(target=lambda: found.append(process.call(arguments={"n": 3})[0].runs))
        thread.start()
        while turn.cell.is_settled:
            time.sleep(0.001)
        time.sleep(0.01)
        asyncio.run(work())
    thread.join()
    assert found == [True]


def test_a_turn_that_is_replaced_goes_on_with_the_time_of_its_log():
    """The clock of the process is another one: no pause of the turn came before the next call."""
    log = FlakyStore()
    first = Process(log, clock=lambda: 900_000.0).guard.shared_turn("conversation:c")
    call = ToolCall("read_file", {"path": "a.txt"})
    for _ in range(2):
        first.begin(call)
        first.end(call, SAME)
    Process(log).guard.shared_turn("conversation:c").begin(call)
    assert first.begin(call).action is Action.BLOCK


def test_a_policy_that_judges_no_call_does_not_use_the_log():
    """Its turns are not shared."""
    log = FlakyStore()
    guard = Guard(Policy(hash_key=KEY, action=Action.OFF), store=log)
    for turn in (guard.turn("one"), guard.shared_turn("gateway:one", "two"), guard.turn(conversation_id="c")):
        call = ToolCall("read_file", {"path": "a.txt"})
        turn.begin(call)
        turn.end(call, SAME)
        assert not turn.is_shared
    assert log.writes == 0


def test_sync_calls_on_an_event_loop_are_written_together():
    """Each call arrives once, and many go with one write."""
    log = FlakyStore()
    process = Process(log)

    async def work():
        for number in range(100):
            process.call(arguments={"n": number}, outcome=Outcome(f"result {number}"))

    asyncio.run(work())
    other = Process(log)
    process.call(arguments={"n": "next to last"})
    other.call(arguments={"n": "last"})
    assert other.turn.current.history.judged == 102
    assert log.writes < 100


def test_a_turn_that_is_replaced_while_it_has_late_events_ends_its_writing():
    """Else the loop of all stores goes round for ever, and no other turn of the process reaches its store."""
    log = FlakyStore()
    one, other = Process(log).guard, Process(log).guard
    first, call = one.shared_turn("conversation:c"), ToolCall("read_file", {"path": "a.txt"})
    first.begin(call)
    log.faults = ["refused"]
    first.end(call, SAME)
    other.shared_turn("conversation:c").begin(call)
    assert first.begin(call).runs
    assert not first.is_settled
    assert first.end(call, SAME).record is not None
    assert first.is_settled


class SlowLooks(FlakyStore):
    """Answers a look at a cell, once they are slow, between the next write and the answer of that."""

    slow: asyncio.Event | None = None

    async def swap(self, key, seen, version, state):
        """Swap, and let the look wait for a write."""
        reply = await super().swap(key, seen, version, state)
        if self.slow is not None and seen == READ_ONLY:
            await self.slow.wait()
        elif self.slow is not None:
            self.slow.set()
            for _ in range(20):
                await asyncio.sleep(0)
        return reply


def test_a_look_after_a_message_loses_no_call_that_is_written_meanwhile():
    """Its answer is older than the write, and the next write would be without that call."""
    log = SlowLooks()
    one = Process(log)
    one.call()
    one.call()
    log.slow = asyncio.Event()
    looked = background.run_later(one.turn.cell.check_messages(one.turn))
    background.wait(asyncio.sleep(0.01))
    one.call(tool="write_file", arguments={"path": "a.txt", "text": "new"})
    looked.result()
    log.slow = None
    other = Process(log)
    other.call(arguments={"path": "b.txt"})
    assert other.turn.current.history.judged == 4


@pytest.mark.parametrize("thinks", ["itself", "itself on an event loop", "another one"])
def test_a_slow_model_is_refused_as_early_whichever_process_asks_it(thinks):
    """Each read is made by a process that has not met the turn before, after 40 seconds of thought."""
    world = World(0, on_loop=thinks == "itself on an event loop")
    ran = []
    for _ in range(3):
        caller = world.process()
        thinker = world.process() if thinks == "another one" else caller
        world.now += 40.0
        world.do(shared(thinker).thought, 40.0)
        ran.append(world.call(caller, "read_file", LONG, path="a.txt")[0])
    assert ran == [True, True, False]


def test_thought_before_the_first_call_is_not_written():
    """It counts for nothing, and nobody tries again and again to write it."""
    world = World(1)
    turn = shared(world.processes[0])
    world.do(turn.thought, 40.0)
    assert turn.is_settled
    assert (world.store.writes, world.store.cells) == (0, {})
    assert world.call(world.processes[0], "read_file", LONG, path="a.txt")[0]


def test_thought_does_not_wait_for_the_store():
    """It counts at once, and is written with the next call if the store does not answer."""
    world = World(1)
    turn = shared(world.processes[0])
    world.call(world.processes[0], "read_file", LONG, path="a.txt")
    world.now += 40.0
    world.store.away(1)
    turn.thought(40.0)
    assert turn.current.history.thought == 40.0
    settle()
    assert not turn.is_settled
    assert world.call(world.processes[0], "read_file", LONG, path="a.txt")[0]
    assert turn.is_settled
    other = world.process()
    world.call(other, "read_file", LONG, path="b.txt")
    assert shared(other).current.history.thought == 40.0
