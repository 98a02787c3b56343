"""Each stopped loop of a turn is found once, with the shortest script that is stopped in the same way."""

from __future__ import annotations

import pytest

from otel_loopguard import Policy, ToolContract
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.replay.recorded_runs import judged_turns, read
from otel_loopguard.cli.test_from.recorded_loops import LoopFinder
from tests.cli.replay.made import call, drawn

from .recordings import judged

NOTHING = "No documents were found for this query."
LOOK = call("read_file", {"path": "a"}, "text")


def loops(*calls, policy=None, **more):
    """The loops of a turn with these calls."""
    policy = policy or Policy()
    return list(LoopFinder(policy).loops("here", judged(*calls, policy=policy, **more)))


def test_a_loop_is_found_once_and_without_what_came_before():
    """The other calls of the turn are no part of it, and the refusals that follow are no more loops."""
    others = [call("read_file", {"path": str(number)}, f"text {number}") for number in range(20)]
    (loop,) = loops(*others, *[LOOK] * 9)
    assert (loop.trip.mode, loop.call, len(loop.script.calls)) == ("generic_repeat", 23, 3)


def test_two_loops_of_a_turn_are_two():
    """The second one is played without the first."""
    other = call("search", {"q": "b"}, "text")
    found = loops(*[LOOK] * 4, *[other] * 4)
    assert [(loop.tool, len(loop.script.calls)) for loop in found] == [("read_file", 3), ("search", 3)]


def test_a_kind_and_a_time_are_in_the_script_where_they_matter():
    """A poll that waits is stopped later than one that does not."""
    slow = [call("get_status", {}, "text", at=20.0 * number, ended=20.0 * number + 1) for number in range(60)]
    (loop,) = [one for one in loops(*slow) if one.script]
    assert len(loop.script.calls) > 20
    assert loop.script.calls[1].pause == 19.0


@pytest.mark.parametrize(
    ("calls", "policy", "reason"),
    [
        ([LOOK] * 2, Policy(), "told, not stopped"),
        (
            [call("search_docs", {"query": f"title of the book {more}"}, NOTHING) for more in ("please", *"abc")],
            Policy(tools={"search_docs": ToolContract(query="auto")}),
            "similar_query needs the texts of its queries, which are not written",
        ),
    ],
    ids=["told", "texts"],
)
def test_a_loop_without_a_script_has_a_reason(calls, policy, reason):
    """A reader learns what is not a test, and why."""
    assert {loop.reason for loop in loops(*calls, policy=policy) if loop.script is None} == {reason}


def test_each_script_is_stopped_at_its_last_call_by_its_mode():
    """Of runs drawn at random, with parallel calls, errors and moving results, nearly all stopped loops have one."""
    policy = Policy()
    judge, finder, found = PolicyJudge(policy), LoopFinder(policy), []
    for seed in range(300):
        for number, calls in judged_turns(read(drawn(seed, 30)), judge):
            found += [loop for loop in finder.loops(f"{seed}, {number}", calls) if not loop.reason.startswith("told")]
    stopped = [loop for loop in found if loop.script]
    assert [finder.stopped_at(loop.script, loop.trip.mode) == len(loop.script.calls) for loop in stopped] == [
        True
    ] * len(stopped)
    assert len(stopped) >= 0.8 * len(found) > 0
