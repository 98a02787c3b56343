"""Recorded calls are folded at their times; whoever reads them gets each when it is over."""

from __future__ import annotations

from typing import Any

from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.replay.recorded_turn import JudgedCall, RecordedTurn
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Sameness
from otel_loopguard.spans.dialects import SpanView
from otel_loopguard.spans.otlp import RecordedCall, ToolSpan


def call(at: int, ended: int, *, arguments: str = "0a", result: str = "0b", **attributes: Any) -> RecordedCall:
    """Make a call as the span of a guarded program has it."""
    found = {
        "loopguard.arguments_hash": arguments, "loopguard.result_hash": result, "loopguard.result_sameness": "same",
        **{f"loopguard.{name}": value for name, value in attributes.items()},
    }  # fmt: skip
    view = SpanView("execute_tool look", found)
    times = at * 10**9, ended * 10**9
    return RecordedCall(ToolSpan("t", "look", (0, at), *times, True, "trace", view), None)


def folded(*calls: RecordedCall) -> list[JudgedCall]:
    """Fold these calls."""
    over: list[JudgedCall] = []
    turn = RecordedTurn(PolicyJudge(Policy()).state(), over.append)
    for one in calls:
        turn.begin(one)
    turn.end_until(None)
    return over


def test_calls_come_when_they_are_over():
    """A call that others outlast comes before them, with its place among the begins."""
    assert [one.position for one in folded(call(1, 9), call(2, 3), call(5, 20))] == [1, 0, 2]


def test_a_repeat_without_news_was_made_in_vain():
    """The first look was not, nor was one with another result."""
    looks = [call(1, 1), call(2, 2, result="0c", result_sameness="different")]
    assert [one.in_vain for one in folded(*looks)] == [False, False]
    assert [one.in_vain for one in folded(call(1, 1), call(2, 2, no_news=True))] == [False, True]


def test_a_call_that_would_have_been_refused_was_made_in_vain():
    """Even one that brought news."""
    same = [call(at, at, no_news=at > 1) for at in range(1, 4)]
    last = folded(*same, call(4, 4, result="0c", result_sameness="different"))[-1]
    assert last.record.news
    assert last.in_vain


def test_a_call_that_was_refused_has_no_result():
    """It was made in vain, unless the user had stopped the run, or a budget was spent."""
    (first, refused) = folded(call(1, 1), call(2, 2, outcome="blocked"))
    assert refused.record.sameness is None
    assert (first.in_vain, refused.in_vain) == (False, True)
    for mode in ("user_stop", "run_budget"):
        (stopped,) = folded(call(1, 1, outcome="blocked", mode=mode))
        assert not stopped.in_vain


def test_a_cancelled_call_is_over_without_a_result():
    """It is no run: an equal call after it is the first."""
    found = folded(call(1, 1, outcome="cancelled"), call(2, 2))
    assert [one.record.sameness for one in found] == [None, Sameness.FIRST]


def test_a_call_that_was_read_in_a_request_is_judged_with_its_result():
    """It is told at the third time, and can be refused at none."""
    read = [call(at, at, has_run=True, no_news=at > 1) for at in range(1, 4)]
    actions = [None if one.trip is None else str(one.trip.action) for one in folded(*read)]
    assert actions == [None, "nudge", "nudge"]
    assert [one.call.has_run for one in folded(*read)] == [True] * 3
