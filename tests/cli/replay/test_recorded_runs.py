"""Replaying a run decides as the guard decides, and lists every refusal."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import orjson
import pytest

from otel_loopguard.cli.replay import recorded_runs
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.vocabulary import OVER_TURNS, Action, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from otel_loopguard.policy_files.load import load_preset
from tests.engine.judges.seed import HINT, SEED

from . import made

DEFAULT = Policy()


def trips(run, policy=DEFAULT):
    found, _ = recorded_runs.replay(recorded_runs.read(run), PolicyJudge(policy))
    return [(trip.turn, trip.call, trip.mode, str(trip.action)) for trip in found]


def test_it_decides_as_the_guard_does_until_the_first_refusal():
    """Nudges and the first refusal of each turn are those of a live guard."""
    for seed in range(SEED, SEED + 150):
        run = made.drawn(seed)
        tools = frozenset(run["tools"]) or None
        for number, turn in enumerate(run["turns"]):
            live = []
            with Guard().turn() as judged:
                stopped = False
                steps = {}
                for index, call in enumerate(turn["calls"]):
                    steps.setdefault(call["step"], []).append((index, call))
                for step in steps.values():
                    begun = []
                    for index, call in step:
                        asked = ToolCall(call["tool"], call["args"], str(index), tools)
                        decision = judged.begin(asked)
                        if not decision.runs:
                            live.append((number, index, str(decision.trip.mode), str(decision.action)))
                            stopped = True
                            break
                        begun.append((index, asked, call))
                    if stopped:
                        break
                    for index, asked, call in begun:
                        ended = judged.end(asked, Outcome(call["result"], is_error=call["is_error"]))
                        if ended.action is Action.NUDGE:
                            live.append((number, index, str(ended.trip.mode), "nudge"))
            replayed = [trip for trip in trips(run) if trip[0] == number]
            if stopped:
                until = live[-1][1]
                same_step = turn["calls"][until]["step"]
                replayed = [t for t in replayed if t[1] <= until and (t == live[-1] or t[3] == "nudge")]
                replayed = [t for t in replayed if t == live[-1] or turn["calls"][t[1]]["step"] != same_step]
            assert sorted(replayed) == sorted(live), f"seed {seed}, turn {number}; {HINT}"


def test_every_refusal_is_listed():
    """Calls recorded after a refusal count as calls that ran: each further repeat is refused, too."""
    assert trips(made.stuck(times=6)) == [
        (0, 1, "generic_repeat", "nudge"), *((0, index, "generic_repeat", "block") for index in (2, 3, 4, 5)),
    ]  # fmt: skip


def test_after_ten_refusals_the_run_would_have_been_ended():
    """The seventh refusal is a conclusion, the eleventh an abort, and what follows is replayed all the same."""
    found = trips(made.stuck(times=16))
    expected = ["nudge", *["block"] * 6, "conclude", *["block"] * 3, *["abort"] * 4]
    assert [action for *_, action in found] == expected


def test_calls_of_one_step_begin_together():
    """Three equal calls that were issued at once are one try, not three."""
    calls = [made.call("read_file", {"path": "a"}, "same", 1) for _ in range(3)]
    assert trips(made.run("parallel", calls)) == []


def test_calls_without_a_step_come_one_after_the_other():
    """Calls without a step are never taken as issued together."""
    calls = [made.call("read_file", {"path": "a"}, "same") for _ in range(3)]
    assert [trip[1] for trip in trips(made.run("plain", calls))] == [1, 2]


def test_results_are_equal_if_their_hashes_are():
    """A cut result with another hash is another result; one with the same hash is the same."""
    cut = "x" * 2_000
    for hashes, expected in ((["a1" * 8, "b2" * 8, "c3" * 8], []), (["a1" * 8] * 3, [1, 2])):
        calls = [made.call("read_file", {"path": "a"}, cut, n, result_hash=h) for n, h in enumerate(hashes)]
        assert [trip[1] for trip in trips(made.run("hashed", calls))] == expected
    calls = [made.call("read_file", {"path": "a"}, "same", n, result_hash=f"sha-1 {n}") for n in range(3)]
    trips(made.run("another notation", calls))


def test_time_counts():
    """A look every few seconds is refused at the third run; one that waits between looks is not."""
    look = made.call("read_file", {"path": "a"}, "same")
    patient = [{**look, "at": n * 40.0, "ended": n * 40.0 + 2} for n in range(8)]
    assert {trip[3] for trip in trips(made.run("patient", patient))} == {"nudge"}
    hasty = [{**look, "at": n * 4.0, "ended": n * 4.0 + 2} for n in range(3)]
    assert [trip[3] for trip in trips(made.run("hasty", hasty))] == ["nudge", "block"]


def test_the_time_that_a_tool_runs_is_no_pause():
    """A tool that runs for a minute each time is called without a pause. Without recorded ends that is not known."""
    slow = [made.call("read_file", {"path": "a"}, "same", at=n * 61.0, ended=n * 61.0 + 60) for n in range(3)]
    assert [trip[3] for trip in trips(made.run("slow", slow))] == ["nudge", "block"]
    unknown = [{key: value for key, value in call.items() if key != "ended"} for call in slow]
    assert [trip[3] for trip in trips(made.run("unknown", unknown))] == ["nudge"]


def test_calls_without_times_have_not_waited():
    """Runs without times are judged as if all were done in haste."""
    assert [trip[3] for trip in trips(made.stuck(times=3))] == ["nudge", "block"]


def test_refusals_of_one_step_count_once():
    """Many calls of one message that are refused do not end the run; as many messages do."""
    calls = [made.call("read_file", {"path": "a"}, "same", min(n, 3)) for n in range(20)]
    assert {trip[3] for trip in trips(made.run("message", calls))} == {"nudge", "block"}
    one_by_one = [{**call, "step": n} for n, call in enumerate(calls)]
    assert "abort" in {trip[3] for trip in trips(made.run("messages", one_by_one))}


def test_calls_that_overlap_are_one_try():
    """Three equal calls that ran at the same time are no repeats; made one after the other they are."""
    calls = [made.call("read_file", {"path": "a"}, "same", at=n, ended=n + 5) for n in range(3)]
    assert trips(made.run("parallel", calls)) == []
    in_turn = [{**call, "ended": call["at"] + 1} for call in calls]
    assert [trip[1] for trip in trips(made.run("in turn", in_turn))] == [1, 2]


def read_by_a_slow_model(**more):
    """One file that is read three times, by a model that takes 40 seconds for each step."""
    return made.run(
        "slow",
        [made.call("read_file", {"path": "a"}, "same", at=n * 41.0, ended=n * 41.0 + 1, **more) for n in range(3)],
    )


@pytest.mark.parametrize(
    ("thought", "actions"), [(40, ["nudge", "block"]), (35.5, ["nudge", "block"]), (20, ["nudge"])]
)
def test_thought_that_is_recorded_is_no_wait(thought, actions):
    """The third equal read is refused, unless the model waited for 10 seconds besides."""
    assert [trip[3] for trip in trips(read_by_a_slow_model(thought=thought))] == actions


@pytest.mark.parametrize("thought", [None, 0, -40, 1e9])
def test_absurd_thought_is_none(thought):
    """As in a live turn: then the time before each call was a wait."""
    assert [trip[3] for trip in trips(read_by_a_slow_model(thought=thought))] == ["nudge"]


def drawn_with_times(seed):
    """Calls of few tools and results, each after a pause and after thought; with these, and the time that it runs."""
    rng = random.Random(seed)
    paces = rng.choice(((0.5, 1), (0.5, 12, 40), (12, 25, 40), (0.5, 70, 700)))
    tools, results = rng.sample(made.TOOLS, rng.choice((1, 2, 3))), rng.sample(made.RESULTS, rng.choice((1, 2, 4)))
    for number in range(rng.randint(3, 20)):
        call = made.call(rng.choice(tools), {"q": 1}, rng.choice(results), number)
        yield rng.choice((0, *paces)), {**call, "thought": rng.choice((0, *paces))}, rng.choice((0.5, 0.5, 2, 60))


def test_recorded_thought_decides_as_told_thought_does():
    """Waits and thought of a run are judged as by a guard that is told them, until the first refusal."""
    refused, now = 0, 1_000.0
    guard = Guard(clock=lambda: now)
    for seed in range(SEED, SEED + 100):
        live, recorded = [], []
        with guard.turn() as turn:
            for waits, call, runs in drawn_with_times(seed):
                now += waits + call["thought"]
                turn.thought(call["thought"])
                recorded.append({**call, "at": now, "ended": now + runs})
                asked = ToolCall(call["tool"], call["args"])
                decision = turn.begin(asked)
                if decision.runs:
                    now += runs
                    decision = turn.end(asked, Outcome(call["result"], is_error=call["is_error"]))
                if decision.trip is not None:
                    live.append((0, call["step"], str(decision.trip.mode), str(decision.action)))
                if not decision.runs:
                    refused += 1
                    break
        assert trips(made.run("drawn", recorded)) == live, f"seed {seed}; {HINT}"
    assert refused >= 5


@pytest.mark.parametrize("key", ["at", "ended", "thought"])
@pytest.mark.parametrize("time", ["noon", True, [1], math.nan, math.inf])
def test_a_time_is_a_finite_number(key, time):
    """A run with any other time is broken."""
    run = made.stuck()
    run["turns"][0]["calls"][1][key] = time
    with pytest.raises(recorded_runs.NotARunError, match=f"`{key}` must be a number of seconds"):
        trips(run)


def test_a_policy_that_only_observes_tells_what_it_would_do():
    """Under observe the trips are those of a policy that blocks; switched off there are none."""
    assert trips(made.stuck(), Policy(action="observe")) == trips(made.stuck())
    assert trips(made.stuck(), Policy(action="off")) == []
    assert {trip[3] for trip in trips(made.stuck(), Policy(action="nudge"))} == {"nudge"}


def test_reuse_needs_something_to_reuse():
    """A call that succeeded is given again; one that only failed runs, as live, with a nudge if the mode has nudges."""
    preset = load_preset("recipe_step").policy
    nudging = replace(preset, modes={})
    cases = (preset, "fine", ["reuse"]), (preset, "Error: no", []), (nudging, "Error: no", ["nudge"])
    for policy, result, expected in cases:
        calls = [made.call("composio_x", {"a": 1}, result, n) for n in range(2)]
        assert [trip[3] for trip in trips(made.run("again", calls), policy)] == expected


def test_results_of_any_shape_are_read():
    """A result that is no text, or none at all, is a result like others."""
    calls = [made.call("read_file", {"path": str(n)}, None, n) for n in range(8)]
    for number, result in enumerate(({"a": [1]}, [1, 2], 3, True, None)):
        calls[number] = {**calls[number], "result": result}
    assert trips(made.run("shapes", calls)) == []
    assert [trip[1] for trip in trips(made.run("same", [{**calls[0], "step": n} for n in range(3)]))] == [1, 2]


def test_turns_of_a_run_that_repeat_each_other_are_reported_as_live():
    """The turns of a run are those of one conversation."""
    policy = Policy(scope="conversation", modes={"no_novelty": Rule(turns=2)})
    for seed in range(SEED, SEED + 60):
        run = made.drawn(seed)
        run["turns"] = [turn for turn in run["turns"] for _ in range(6)]
        guard, live = Guard(policy), []
        for number, turn in enumerate(run["turns"]):
            with guard.turn(conversation_id="a run") as live_turn:
                for position, one in enumerate(turn["calls"]):
                    call = ToolCall(one["tool"], one["args"])
                    decision = live_turn.ran(call, Outcome(one["result"], None, one.get("is_error")))
                    if decision.trip is not None and decision.trip.reason == OVER_TURNS:
                        live.append((number, position, decision.trip.mode, decision.trip.count))
        found, _ = recorded_runs.replay(recorded_runs.read(run), PolicyJudge(policy))
        replayed = [(trip.turn, trip.call, trip.mode, trip.count) for trip in found if trip.limit == 2]
        assert [trip for trip in replayed if trip[2] == "no_novelty"] == live, HINT


def test_what_is_nested_too_deeply_is_compared():
    """Arguments that can be read and not be written again are no fault."""
    deep = '{"turns": [{"calls": [' + ", ".join(
        f'{{"tool": "search", "args": {{"q": {"[" * 300}{n}{"]" * 300}}}, "result": "ok"}}' for n in (1, 1, 2)
    )
    assert [trip[1] for trip in trips(orjson.loads(deep + "]}]}"))] == [1]


def test_a_poll_that_moves_is_no_row_of_polls_with_one_result():
    """Where a policy that counts has a mode for polls, their results matter."""
    policy = load_preset("typed_window").checked()
    still = [made.call("get_status", {"job": 1}, "running", step) for step in range(12)]
    moving = [made.call("get_status", {"job": 1}, f"{'abcdefghijkl'[step]} is running", step) for step in range(12)]
    assert [trip[1] for trip in trips(made.run("still", still), policy)] == [9, 10, 11]
    assert trips(made.run("moving", moving), policy) == []
    look = {**made.call("read_file", {"path": "log"}, "empty"), "step": None}
    assert trips(made.run("between", [one for poll in moving[:3] for one in (poll, look)]), policy) == []


def test_calls_count_in_the_order_in_which_they_end():
    """Three errors of a tool end in a row, although a call between them succeeds: it ends later."""
    ends = ((0, 1, "Error: no"), (2, 3, "Error: no"), (4, 20, "fine"), (5, 6, "Error: no"), (30, 31, "well"))
    calls = [made.call("read_file", {"path": at}, text, at=at, ended=end) for at, end, text in ends]
    assert [trip[1:3] for trip in trips(made.run("errors", calls))] == [(3, "error_repeat")]


def test_hashes_are_equal_in_any_notation():
    """A hash is a number: in capitals, and with more digits than are compared, it is the same one."""
    hashes = ("ab" * 8, "AB" * 8, "ab" * 12, "AB" * 16)
    calls = [made.call("read_file", {"q": 1}, f"text {'abcd'[n]}", result_hash=one) for n, one in enumerate(hashes)]
    assert [trip[1] for trip in trips(made.run("hashes", calls))] == [1, 2, 3]
