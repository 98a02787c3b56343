"""The rules of other systems in benchmarks/peers.py do what their sources do, on traces that show it."""

from __future__ import annotations

import pytest

from benchmarks import peers
from otel_loopguard import Outcome, ToolCall


def exact(call):
    return "shell", {"command": "make"}, "done"


def volatile(call):
    return "shell", {"command": "make"}, f"done {call}"


def laps_of(period):
    return lambda call: ("read_file", {"path": f"{call % period}.py"}, f"text {call % period}")


def varied(call):
    return "write", {"path": f"{call}.py"}, "ok"


def edit_and_test(call):
    return (
        ("write", {"path": "a.py", "text": str(call)}, "ok") if call % 2 else ("shell", {"command": "test"}, "1 failed")
    )


def course(peer, world, calls=120):
    """The first call, from 1, that is nudged, and the first that is refused or after which the run ends."""
    judge, nudged, stopped = peer(), None, None
    for number in range(1, calls + 1):
        tool, args, result = world(number)
        call = ToolCall(tool, args)
        action = judge.begin(call, 0.0)
        if action is None or action[0] == "nudge":
            action = judge.end(call, Outcome(result), 0.0) or action
        if action and action[0] == "nudge":
            nudged = nudged or number
        elif action:
            stopped = number
            break
    return nudged, stopped


@pytest.mark.parametrize(
    ("peer", "world", "expected"),
    [
        (peers.OpenClaw, exact, (None, 21)),
        (peers.OpenClaw, volatile, (None, None)),
        (peers.OpenClaw, laps_of(2), (None, 20)),
        (peers.OpenClaw, laps_of(3), (None, None)),
        (peers.OpenHands, exact, (None, 4)),
        (peers.OpenHands, laps_of(2), (None, 6)),
        (peers.OpenHands, laps_of(3), (None, None)),
        (peers.GeminiCli, volatile, (5, 6)),
        (peers.GeminiCli, laps_of(4), (20, 21)),
        (peers.GeminiCli, laps_of(6), (None, None)),
        (peers.Qwen, exact, (None, 5)),
        (peers.Qwen, laps_of(4), (None, 101)),
        (peers.QwenHeuristics, laps_of(2), (None, 6)),
        (peers.QwenHeuristics, varied, (None, 8)),
        (peers.QwenHeuristics, edit_and_test, (None, 12)),
        (peers.Cline, exact, (3, 5)),
        (peers.RooCode, volatile, (None, 4)),
        (peers.DeerFlow, laps_of(3), (7, 13)),
        (peers.DeerFlow, varied, (30, 50)),
        (peers.Hermes, laps_of(2), (6, 10)),
        (peers.Hermes, laps_of(4), (12, 20)),
        (peers.Stella, exact, (3, 4)),
        (peers.Stella, volatile, (None, None)),
        (peers.Stella, laps_of(3), (7, 10)),
        (peers.Stella, laps_of(6), (13, 19)),
        (peers.Stella, varied, (6, 7)),
        (peers.Stella, edit_and_test, (6, 8)),
        (peers.BrowserUse, laps_of(2), (9, None)),
        (peers.Automatos, exact, (None, 2)),
        (peers.CrewAI, exact, (None, 2)),
        (peers.CrewAI, laps_of(2), (None, None)),
        (peers.ThreeInTen, laps_of(4), (None, 9)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_restated_rule_acts_at_the_call_at_which_its_source_does(peer, world, expected):
    """The calls are those of a simulation of each source; without the parts that are named as left out."""
    assert course(peer, world) == expected
