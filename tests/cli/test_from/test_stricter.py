"""Lower limits are found that stop a loop earlier, unless they stop other runs of the recording."""

from __future__ import annotations

from otel_loopguard import Policy, ToolContract
from otel_loopguard.cli.replay import recorded_runs
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.replay.line_judge import JudgedRun
from otel_loopguard.cli.test_from.recorded_loops import LoopFinder
from otel_loopguard.cli.test_from.stricter import stricter
from tests.cli.replay.made import call, run

from .recordings import judged

POLL = call("get_status", {"job": "a"}, "queued")


def found(loop, *others, policy=None):
    """The settings for the loop of a turn, in a recording that has these other turns."""
    policy = policy or Policy()
    loops = LoopFinder(policy).loops("here", judged(*loop, policy=policy))
    runs = [recorded_runs.read(run("made", list(calls))) for calls in (loop, *others)]

    def read(judges, add):
        for one in runs:
            add(JudgedRun("", None, 1, tuple(recorded_runs.replay(one, judge)[0] for judge in judges), (), None))

    return stricter([("test_it", one) for one in loops if one.script], PolicyJudge(policy), read)


def test_a_quarter_of_the_limit_is_tried_first():
    """A poll that is stopped at 20 could have been stopped at 5."""
    lower = found([POLL] * 20)
    assert lower.settings.values == {("tools", "get_status", "modes", "poll_no_progress", "block"): 5}
    assert list(lower.settings.reasons.values()) == ["test_it: call 5, not 20"]


def test_a_limit_is_not_so_low_that_it_stops_another_run():
    """A poll that had its answer at the 8th time is not stopped."""
    lower = found([POLL] * 20, [POLL] * 8)
    assert lower.settings.values == {("tools", "get_status", "modes", "poll_no_progress", "block"): 10}


def test_a_setting_that_stops_another_run_at_any_value_is_left_out():
    """It is named with the number of these runs."""
    lower = found([POLL] * 20, [POLL] * 16, [POLL] * 17)
    path = ("tools", "get_status", "modes", "poll_no_progress", "block")
    assert (lower.settings.values, lower.too_strict) == ({}, {path: 2})


def test_a_cap_is_lowered():
    """A ``retry_limit`` is that of the tool's contract."""
    calls = [call("search", {"q": number}, f"text {number}") for number in range(13)]
    lower = found(calls, policy=Policy(tools={"search": ToolContract(cap=12)}))
    assert lower.settings.values == {("tools", "search", "cap"): 3}
