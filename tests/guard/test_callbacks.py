"""Custom detectors: their trips are handled like all others, and their faults let the call run."""

from __future__ import annotations

import json

import pytest

from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.words import Action, Outcome, ToolCall, Trip
from otel_loopguard.guard.guard import Guard


def guard_with(answer, **settings):
    """Return a guard with a detector that always gives this answer, and the list of reported faults."""
    guard, faults = Guard(Policy(detectors=[lambda *_: answer], **settings)), []
    guard.faults.report_to = lambda site, error: faults.append((site, type(error).__name__))
    return guard, faults


async def a_coroutine(*_):
    """Stand for a detector that is async by mistake."""


@pytest.mark.parametrize(
    "answer",
    [
        "block",
        4,
        ("own", "x", 1, 0, Action.BLOCK),
        Trip("own", "x", 1, 0, "blok"),
        Trip("own", "x", 1, 0, 4),
        Trip("own", "x", 1, 0, None),
        Trip(None, "x", 1, 0, Action.BLOCK),
        Trip("own", None, 1, 0, Action.BLOCK),
        Trip("own", "x", 1.5, 0, Action.BLOCK),
        Trip("own", "x", 1, None, Action.BLOCK),
        Trip("own", "x", 1, 0, Action.BLOCK, reason=["x"]),
        Trip("own", "x", 1, 0, Action.BLOCK, kind="write"),
    ],
)
def test_an_answer_that_is_no_trip_is_a_fault_and_the_call_runs(answer):
    """Such an answer is reported like an exception of the detector; begin and end do not raise."""
    guard, faults = guard_with(answer)
    turn, call = guard.turn(), ToolCall("x", {})
    assert turn.begin(call).runs
    assert turn.end(call, Outcome("fine")).action is None
    assert faults == [("detector", "NotATripError" if "blok" not in repr(answer) else "KeyError")]


def test_an_async_detector_is_a_fault():
    """The coroutine of the detector is closed, so that Python prints no warning."""
    guard, faults = guard_with(None)
    guard.use(Policy(detectors=[a_coroutine]))
    assert guard.turn().begin(ToolCall("x")).runs
    assert faults == [("detector", "NotATripError")]


def test_a_verdict_may_be_the_name_of_an_action():
    """The name is converted to the action."""
    guard, faults = guard_with(Trip("own", "x", 1, 0, "block"))
    decision = guard.turn().begin(ToolCall("x", {}))
    assert (decision.action, decision.trip.verdict, faults) == (Action.BLOCK, Action.BLOCK, [])


def test_a_fault_of_one_detector_leaves_the_others_working():
    """The trip of a second detector counts though the first one gave a wrong answer."""
    policy = Policy(detectors=[lambda *_: "block", lambda _h, call, _r: Trip("own", call.tool, 1, 0, Action.BLOCK)])
    assert Guard(policy).turn().begin(ToolCall("x")).action is Action.BLOCK


def test_a_trip_that_can_be_insisted_on_runs_when_it_is_insisted_on():
    """The refusal says that the same call will run, and it does."""
    guard, _ = guard_with(Trip("own", "x", 1, 0, Action.BLOCK, insistable=True))
    turn = guard.turn()
    assert [turn.begin(ToolCall("x", {})).runs for _ in range(2)] == [False, True]


def test_values_that_json_cannot_hold_are_still_refused_in_json():
    """A number beyond 64 bits does not keep the refusal from being JSON, and a lone surrogate is no part of a name."""
    guard, _ = guard_with(Trip("own", "\ud800", 2**80, 0, Action.BLOCK))
    refusal = json.loads(guard.turn().begin(ToolCall("\ud800", {})).message)
    assert (refusal["tool"], refusal["count"]) == ("_", 2**80)
