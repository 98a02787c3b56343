"""The index of a call: its position in its turn, refused calls included."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from otel_loopguard.engine.compiled import CompiledPolicy
from otel_loopguard.engine.events import Began, Ended
from otel_loopguard.engine.fold import fold
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.state import State
from otel_loopguard.engine.values.results import outcome_facts
from otel_loopguard.engine.vocabulary import Action, Kind, Outcome, ToolCall, Trip
from otel_loopguard.guard.guard import Guard

if TYPE_CHECKING:
    from otel_loopguard.guard.turn import Turn


def index(turn: Turn, path: str = "a", *, call_id: str | None = None, cancelled: bool = False) -> int:
    """Make one call with an equal result each time. Return its index."""
    call = ToolCall("read_file", {"path": path}, call_id, written=turn.tick)
    decision = turn.begin(call)
    if decision.runs:
        turn.end(call, Outcome("text", cancelled=cancelled))
    return int(decision.record.index)


def test_refused_calls_have_an_index_of_their_own():
    """Indexes count from 0 without gaps, and the turn counts only the calls that ran."""
    turn = Guard().turn()
    assert [index(turn, path) for path in "aaaabc"] == list(range(6))
    assert turn.calls == 4


def test_a_call_that_the_user_stopped_has_an_index():
    """The refusal with the user's message is a call like any other."""
    turn = Guard().turn()
    index(turn)
    turn.say("stop", stop=True)
    assert [index(turn, "b"), index(turn, "c")] == [1, 2]


def test_parallel_calls_have_the_indexes_of_their_beginning():
    """Each call keeps its index, in whatever order they end."""
    turn = Guard().turn()
    calls = [ToolCall("read_file", {"path": path}) for path in "abc"]
    begun = [turn.begin(call).record.index for call in calls]
    ended = [turn.end(call, Outcome("text")).record.index for call in reversed(calls)]
    assert (begun, ended) == ([0, 1, 2], [2, 1, 0])


async def test_calls_that_wait_for_on_trip_have_different_indexes():
    """Two parallel calls about which a human is asked are two calls."""

    async def on_trip(_trip: Trip) -> None:
        await asyncio.sleep(0)

    turn = Guard(Policy(on_trip=on_trip)).turn()
    index(turn)
    index(turn)
    both = await asyncio.gather(*(turn.abegin(ToolCall("read_file", {"path": "a"})) for _ in range(2)))
    assert [decision.record.index for decision in both] == [2, 3]


def test_a_resumed_call_keeps_its_index():
    """The call after it has the next one."""
    turn = Guard().turn()
    assert index(turn, call_id="c1", cancelled=True) == 0
    assert index(turn, call_id="c1") == 0
    assert index(turn, "b", call_id="c2") == 1


def test_nested_turns_have_indexes_of_their_own():
    """Calls inside of a nested turn leave no gap in the outer turn."""
    turn = Guard().turn()
    outer = ToolCall("run_agent", {"task": "look"})
    turn.begin(outer)
    child = turn.child(outer)
    assert [index(child, path) for path in "ab"] == [0, 1]
    turn.end(outer, Outcome("done"))
    assert index(turn) == 1
    assert turn.calls == 4


def test_observed_calls_have_one_index_each():
    """A call that ``on_trip`` would have refused has run all the same, under one index."""
    turn = Guard(Policy(on_trip=lambda _trip: "block")).turn(enforced=False)
    call = ToolCall("read_file", {"path": "a"})
    assert [turn.ran(call, Outcome("same")).record.index for _ in range(5)] == list(range(5))


def test_calls_that_custom_detectors_refuse_have_an_index():
    """Custom detectors see the index that the call will have."""
    seen = []

    def no_deletes(_history, record, _rule):
        seen.append(record.index)
        return Trip("no_deletes", record.tool, 1, 1, Action.BLOCK, kind=Kind.READ) if record.index % 2 else None

    turn = Guard(Policy(detectors=[no_deletes])).turn()
    assert [index(turn, str(number)) for number in range(4)] == seen == [0, 1, 2, 3]


def test_recorded_calls_have_the_indexes_of_live_ones():
    """In ``replay`` runs and recorded refusals share the indexes."""
    compiled = CompiledPolicy(Policy())
    state = State(compiled, is_recorded=True)
    resolved = compiled.contracts.resolve(ToolCall("read_file", {"path": "a"}))
    facts = outcome_facts(Outcome("same"), {}, compiled.fingerprinter, compiled.contracts.pending)
    found = []
    for number in range(5):
        began = Began(number, resolved, 7, ran=False if number == 3 else None)
        record = fold(state, began, 0.0).record
        if number != 3:
            fold(state, Ended(number, began, record, facts), 0.0)
        found.append(record.index)
    assert found == list(range(5))


def test_a_trip_names_the_first_call_by_its_index():
    """``first_seen_index`` counts refused calls, too."""
    turn = Guard().turn()
    for path in "aaaa":
        index(turn, path)
    index(turn, "b")
    index(turn, "b")
    assert turn.begin(ToolCall("read_file", {"path": "b"})).trip.first_seen_index == 4


def test_a_restored_turn_counts_on():
    """The next index is part of the state."""
    guard = Guard()
    turn, restored = guard.turn(), guard.turn()
    for _ in range(4):
        index(turn)
    restored.restore(turn.state())
    assert index(restored) == 4


def in_vain(*calls: tuple[str, str], kind: str | None = None) -> list[bool]:
    """Make these calls, each a path and the result; ``write`` writes. True for each that ran in vain."""
    tools = {} if kind is None else {"read_file": ToolContract(kind=kind)}
    turn = Guard(Policy(action="observe", tools=tools)).turn()
    found = []
    for path, result in calls:
        call = ToolCall("write_file" if path == "write" else "read_file", {"path": path}, written=turn.tick)
        turn.begin(call)
        found.append(turn.end(call, Outcome(result)).record.ran_in_vain)
    return found


def test_a_repeat_without_news_ran_in_vain():
    """The first run never did, nor a run with another result; a result that had been there before did."""
    assert in_vain(("a", "x"), ("a", "x"), ("a", "y"), ("a", "x"), ("b", "x")) == [False, True, False, True, False]


def test_a_repeat_after_a_change_did_not_run_in_vain():
    """Tests are run again after an edit, and fail again."""
    calls = (("a", "x"), ("write", "saved"), ("a", "x"), ("a", "x"))
    assert in_vain(*calls) == [False, False, False, True]


def test_a_call_whose_repetition_is_the_work_never_ran_in_vain():
    """It is declared as ``step``."""
    assert in_vain(*[("a", "x")] * 4, kind="step") == [False] * 4


def test_calls_of_one_message_did_not_run_in_vain():
    """The model wrote the second one before it read the result of the first; it did not wait for it."""
    turn = Guard().turn()
    written = turn.tick
    pair = [ToolCall("read_file", {"path": "a"}, written=written) for _ in range(2)]
    for call in pair:
        turn.begin(call)
    assert [turn.end(call, Outcome("x")).record.ran_in_vain for call in pair] == [False, False]


def test_a_run_that_waited_did_not_run_in_vain():
    """A status that is read once a minute is patience."""
    time = [0.0]
    turn = Guard(clock=lambda: time[0]).turn()
    found = []
    for _ in range(3):
        call = ToolCall("get_job_status", {"job": "a"}, written=turn.tick)
        turn.begin(call)
        found.append(turn.end(call, Outcome("running")).record.ran_in_vain)
        time[0] += 60
    assert found == [False, False, False]


def steps(policy: Policy, paths: str, outcome: Outcome) -> list[bool]:
    """Make a call with each of these paths and this outcome. True for each that is a step of a loop."""
    turn = Guard(policy, clock=lambda: 0.0).turn()
    found = []
    for path in paths:
        call = ToolCall("read_file", {"path": path}, written=turn.tick)
        decision = turn.begin(call)
        if decision.runs:
            turn.end(call, outcome)
        found.append(decision.is_loop_step)
    return found


def test_a_call_that_would_be_refused_is_a_step_of_a_loop():
    """The figures of a policy that only observes can be compared with those of one that enforces."""
    for action in ("observe", "nudge", "block"):
        assert steps(Policy(action=action), "aaaa", Outcome("same")) == [False, True, True, True]


def test_an_untried_call_is_a_step_of_a_loop_if_it_is_refused():
    """Its error has come ten times, with other arguments; one refusal buys a run, then two do."""
    found = steps(Policy(), "abcdefghijklm", Outcome(error="no such file"))
    assert found.index(True) == 9
    assert found.count(True) == 3


def test_a_call_that_the_user_stopped_is_no_step_of_a_loop():
    """It was refused, but repeated nothing."""
    turn = Guard().turn()
    turn.say("stop", stop=True)
    decision = turn.begin(ToolCall("read_file", {"path": "a"}))
    assert not decision.runs
    assert not decision.is_loop_step
