"""A turn without a framework: begin and end each call."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import tracemalloc

import pytest

from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.vocabulary import Action, Kind, Outcome, ToolCall, Trip
from otel_loopguard.guard.guard import Guard


def make(turn, tool="read_file", result="same", **arguments):
    """Make one call from begin to end. Return the decision of the end, or the refusal."""
    call = ToolCall(tool, arguments)
    decision = turn.begin(call)
    return turn.end(call, Outcome(result)) if decision.runs else decision


def test_from_the_third_refusal_on_the_model_is_told_to_answer():
    """The first refusals advise another action, later ones to stop calling tools."""
    turn = Guard().turn()
    said = [json.loads(d.message)["message"] for d in [make(turn, path="a") for _ in range(5)] if not d.runs]
    assert ["Stop calling tools" in text for text in said] == [False, False, True]


def test_refusals_end():
    """After ``abort_after`` refusals without news the next one ends the run; with 0 none does."""
    turn = Guard(Policy(abort_after=3)).turn()
    assert [make(turn, path="a").action for _ in range(6)][2:] == [Action.BLOCK] * 3 + [Action.ABORT]
    turn = Guard(Policy(abort_after=0)).turn()
    assert {make(turn, path="a").action for _ in range(60)} == {None, Action.NUDGE, Action.BLOCK, Action.CONCLUDE}


def test_news_gives_the_agent_new_refusals():
    """Refusals are counted since the last news."""
    turn = Guard(Policy(abort_after=3)).turn()
    for _ in range(5):
        make(turn, path="a")
    assert make(turn, path="b", result="other").runs
    assert make(turn, path="a").action is not Action.ABORT


@pytest.mark.parametrize("ceiling", [Action.OFF, Action.OBSERVE, Action.NUDGE])
def test_under_a_lower_ceiling_everything_runs(ceiling):
    """No call is refused and no run is aborted, however many equal calls are made."""
    turn = Guard(Policy(action=ceiling)).turn()
    decisions = [make(turn, path="a") for _ in range(50)]
    assert all(decision.runs for decision in decisions)
    assert {decision.action for decision in decisions} <= {None, ceiling}


def test_an_observed_loop_has_trips_at_growing_distances():
    """An observed loop has trips at 3, 6, 12 and 24 calls, not at every call."""
    turn = Guard(Policy(action=Action.OBSERVE)).turn()
    trips = []
    for _ in range(30):
        call = ToolCall("read_file", {"path": "a"})
        begun = turn.begin(call)
        turn.end(call, Outcome("same"))
        if begun.trip:
            trips.append((begun.trip.count, begun.trip.verdict, begun.trip.action))
    assert [count for count, verdict, _ in trips if verdict is Action.BLOCK] == [3, 6, 12, 24]
    assert {action for *_, action in trips} == {Action.OBSERVE}


def test_off_switches_everything_off():
    """No call has a trip."""
    turn = Guard(Policy(action=Action.OFF)).turn()
    assert all(make(turn, path="a").trip is None for _ in range(20))


def test_a_turn_that_is_not_enforced_is_observed():
    """The policy's ceiling is higher, but only observing is allowed."""
    turn = Guard().turn(enforced=False)
    assert all(make(turn, path="a").action in (None, Action.OBSERVE) for _ in range(20))


def test_reuse_gives_the_earlier_result_again():
    """With ``reuse`` in its contract a call gets the earlier result; the ceiling REUSE alone only nudges."""
    turn = Guard(Policy(tools={"read_*": ToolContract(reuse=True)})).turn()
    decision = [make(turn, result={"text": "kept"}, path="a") for _ in range(3)][2]
    assert (decision.action, decision.result) == (Action.REUSE, {"text": "kept"})
    turn = Guard(Policy(action=Action.REUSE)).turn()
    assert all(make(turn, path="a").runs for _ in range(9))


def test_a_cancelled_call_leaves_nothing_behind():
    """A cancelled call does not count as a run."""
    turn = Guard().turn()
    for _ in range(10):
        call = ToolCall("read_file", {"path": "a"})
        assert turn.begin(call).runs
        turn.end(call, Outcome(cancelled=True))
    assert make(turn, path="a").action is None


def test_an_equal_object_ends_a_call():
    """``end`` finds the call by its contents; a second ``end``, or one without ``begin``, has no effect."""
    turn = Guard().turn()
    turn.begin(ToolCall("read_file", {"path": "a"}))
    assert turn.end(ToolCall("read_file", {"path": "a"}), Outcome("x")).record is not None
    assert turn.end(ToolCall("read_file", {"path": "a"}), Outcome("x")).record is None


def test_on_trip_has_the_last_word():
    """``on_trip`` may let a call run or end the run; None keeps the decision."""
    seen = []

    def on_trip(trip):
        seen.append((trip.mode, trip.verdict))
        return Action.OBSERVE

    turn = Guard(Policy(on_trip=on_trip)).turn()
    assert all(make(turn, path="a").runs for _ in range(5))
    assert (Mode.GENERIC_REPEAT, Action.BLOCK) in seen
    turn = Guard(Policy(on_trip=lambda _: "abort")).turn()
    assert [make(turn, path="a").action for _ in range(2)][-1] is Action.ABORT
    turn = Guard(Policy(on_trip=lambda _: None)).turn()
    assert [make(turn, path="a").action for _ in range(3)][-1] is Action.BLOCK


async def test_an_async_on_trip_is_awaited_by_abegin():
    """The call waits for a human's answer; other tasks continue."""

    async def on_trip(trip):
        await asyncio.sleep(0)
        return Action.OBSERVE if trip.verdict is Action.BLOCK else None

    turn = Guard(Policy(on_trip=on_trip)).turn()
    for _ in range(4):
        call = ToolCall("read_file", {"path": "a"})
        assert (await turn.abegin(call)).runs
        turn.end(call, Outcome("same"))


def test_an_async_on_trip_in_sync_code_is_logged_once(caplog):
    """The answer cannot be awaited in sync code: the decision is kept, and one warning gives the reason."""

    async def on_trip(trip):
        return Action.OBSERVE

    turn = Guard(Policy(on_trip=on_trip)).turn()
    with caplog.at_level(logging.WARNING, "otel_loopguard"):
        assert [make(turn, path="a").action for _ in range(4)][-1] is Action.BLOCK
    assert len([record for record in caplog.records if "on_trip is async" in record.message]) == 1


def test_no_lock_is_held_while_foreign_code_runs():
    """``on_trip`` and custom detectors may use the same turn."""

    def on_trip(trip):
        make(turn, "other_tool", path=turn.calls, result=turn.calls)

    def own(history, call, rule):
        return None if call.tool != "read_file" else Trip("mine", call.tool, history.calls, 5, Action.OBSERVE)

    turn = Guard(Policy(on_trip=on_trip, detectors=(own,))).turn()
    for _ in range(5):
        make(turn, path="a")
    assert turn.calls > 5


def test_a_custom_detector_refuses():
    """The trip of a custom detector is handled like those of the built-in detectors."""

    def no_mondays(_history, call, _rule):
        if call.tool == "deploy":
            return Trip("no_mondays", call.tool, 1, 0, Action.BLOCK, kind=Kind.WRITE)
        return None

    turn = Guard(Policy(detectors=(no_mondays,), sentences={"no_mondays": "Not on Mondays, {tool}."})).turn()
    decision = make(turn, "deploy")
    assert (decision.action, decision.trip.mode) == (Action.BLOCK, "no_mondays")
    assert json.loads(decision.message)["message"] == "Not on Mondays, deploy."
    assert make(turn, path="a").runs


def test_recoveries_name_the_trips_before_the_news():
    """The decision about a result with news has the trips since the last news."""
    turn = Guard().turn()
    for _ in range(3):
        make(turn, path="a")
    call = ToolCall("read_file", {"path": "b"})
    turn.begin(call)
    recovered = turn.end(call, Outcome("other")).recovered
    assert [(trip.mode, trip.action) for trip in recovered] == [
        (Mode.GENERIC_REPEAT, Action.NUDGE),
        (Mode.GENERIC_REPEAT, Action.BLOCK),
    ]


def test_messages_of_the_user_are_delivered_once_and_in_order():
    """Messages come with the next result; ``close`` returns those that were not delivered."""
    turn = Guard().turn()
    turn.say("look at b")
    turn.say("then stop")
    assert make(turn, path="a").message == "look at b\nthen stop"
    assert make(turn, path="b", result="other").message is None
    turn.say("too late")
    assert turn.close() == ["too late"]


def test_a_stop_refuses_further_calls_and_then_ends_the_run():
    """Refusals have the user's text; an agent that continues is aborted."""
    turn = Guard(Policy(abort_after=2)).turn()
    turn.say("stop, that is done", stop=True)
    decisions = [make(turn, path=number) for number in range(3)]
    assert [decision.action for decision in decisions] == [Action.BLOCK, Action.BLOCK, Action.ABORT]
    assert decisions[0].message == "stop, that is done"


def test_a_child_turn_has_its_own_history_and_its_parents_totals():
    """The news of a child is news of the call that it runs in, and its calls count in the parent."""
    guard = Guard(Policy(max_calls=20))
    turn = guard.turn()
    for number in range(3):
        call = ToolCall("delegate_work", {"to": "b"})
        assert turn.begin(call).runs
        child = turn.child(call)
        make(child, path=number, result=str(number))
        turn.end(call, Outcome("done"))
    assert turn.calls == 6
    for _ in range(3):
        decision = make(turn, "delegate_work", "done", to="b")
    assert decision.action is Action.BLOCK


def test_memory_is_bounded_however_long_a_turn_is():
    """Calls, results and errors beyond the bounds are forgotten and count as new again."""
    turn = Guard(Policy(action=Action.OBSERVE)).turn()
    for number in range(6_000):
        make(turn, path=number % 3_000, result=str(number))
    history = turn.current.history
    assert len(history.run_once) + len(history.repeated) <= 1_024
    assert len(history.pairs) <= 4_096
    assert len(history.keys) <= 64


def test_messages_of_the_user_come_with_a_refusal_too():
    """A model that only gets refusals still reads the user's messages."""
    turn = Guard().turn()
    for _ in range(2):
        make(turn, path="a")
    turn.say("try b")
    assert json.loads(make(turn, path="a").message)["user"] == "try b"
    assert "user" not in json.loads(make(turn, path="a").message)


def test_a_stop_that_was_not_delivered_is_returned():
    """``close`` returns an undelivered stop like any other message."""
    turn = Guard().turn()
    turn.say("stop", stop=True)
    assert turn.close() == ["stop"]


def test_a_fault_of_the_users_functions_decides_nothing(caplog):
    """After an exception in a detector or in ``on_trip`` the call runs; it is logged once, without its text."""

    def broken(*_):
        raise ValueError("secret")

    guard = Guard(Policy(detectors=(broken,)))
    turn = guard.turn()
    assert [make(turn, path="a").action for _ in range(3)] == [None, Action.NUDGE, Action.BLOCK]
    guard.use(Policy(on_trip=broken))
    turn = guard.turn()
    assert all(make(turn, path="a").runs for _ in range(9))
    assert len(caplog.records) == 2
    assert "secret" not in caplog.text


def test_a_refusal_says_how_many_there_were():
    """The model reads the number of refusals, which it can count, and not only the number of runs, which stays."""
    with Guard(Policy(conclude_after=0)).turn() as turn:
        texts = []
        for _ in range(6):
            call = ToolCall("read_file", {"path": "a.txt"})
            decision = turn.begin(call)
            if decision.runs:
                turn.end(call, Outcome("the same old text"))
            else:
                texts.append(json.loads(decision.message)["message"])
    assert "This is refusal" not in texts[0]
    for number, text in enumerate(texts[1:], 2):
        assert f"This is refusal {number} in a row." in text


def test_attempts_are_counted_on_while_a_call_is_refused():
    """The trip counts runs; the record counts attempts."""
    turn = Guard().turn()
    assert [make(turn, path="a").record.attempt for _ in range(5)][2:] == [3, 4, 5]


@pytest.mark.parametrize(
    ("tools", "again", "differs", "kilobytes"),
    [(1, (), False, 4.15), (6, (), False, 5.8), (1, (5, 8, 11), False, 4.8), (1, (5, 8, 11), True, 5.65)],
    ids=["one tool", "six tools", "equal repeats", "differing repeats"],
)
def test_a_live_turn_of_fifteen_calls_takes_a_few_kilobytes(*, tools, again, differs, kilobytes):
    """The history is packed: a call that has run once, a tool, and the numbers of a result that differs."""
    guard = Guard()

    def run(turn):
        for number in range(15):
            made = number - 3 if number in again else number
            call = ToolCall(f"read_{made % tools}", {"path": f"file-{made}"})
            if turn.begin(call).runs:
                turn.end(call, Outcome(f"result {number if differs else made}: " + "table of 913 rows " * 30))

    run(guard.turn())
    gc.collect()
    tracemalloc.start()
    for _ in range(100):
        run(guard.turn())
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept / 100 < kilobytes * 1_024
