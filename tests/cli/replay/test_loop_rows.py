"""Rows of loops, of calls that are written by hand. What a guarded turn does is tested by what it does, elsewhere."""

from __future__ import annotations

from otel_loopguard.cli.replay.loop_rows import AFTER, ENDED, REFUSED, REUSED, LoopCall, budget_rows, rows
from otel_loopguard.engine.vocabulary import Action


def looped(tool: str = "search", arguments: object = 1, mode: str = "generic_repeat", **more: object) -> LoopCall:
    """A call that is part of a loop."""
    return LoopCall(tool, arguments, mode, is_loop=True, **more)  # type: ignore[arg-type]  # its fields


def test_a_loop_is_one_row_with_the_runs_before_its_first_trip():
    """Whatever was called in between is no part of it."""
    calls = [LoopCall("search", 1), LoopCall("read", 2), LoopCall("search", 1), *[looped(fate=REFUSED)] * 7]
    assert list(rows(calls)) == ["search x9: 2 ran, 7 refused"]


def test_calls_without_a_loop_make_no_row():
    """Nor does a call about which the model is only told."""
    assert list(rows([LoopCall("search", 1), LoopCall("search", 1, "generic_repeat")])) == []


def test_the_end_is_named_by_its_call_counted_from_1():
    """The end comes last in the row; the first end counts."""
    calls = [looped(), looped(fate=REFUSED), looped(fate=ENDED, ends=Action.ABORT), looped(fate=AFTER)]
    assert list(rows(calls)) == ["search x4: 1 ran, 1 refused, run ended at 3"]
    assert list(rows([looped(), looped(fate=REFUSED, ends=Action.CONCLUDE)])) == [
        "search x2: 1 ran, 1 refused, tools withdrawn at 2"
    ]


def test_a_run_that_ended_though_its_tools_were_withdrawn_has_both():
    """In their order."""
    calls = [looped(), looped(ends=Action.CONCLUDE), looped(fate=ENDED, ends=Action.ABORT)]
    assert list(rows(calls)) == ["search x3: 2 ran, tools withdrawn at 2, run ended at 3"]


def test_the_end_of_a_model_that_calls_on_is_named_apart():
    """No recording tells whether a model answers once its tools are withdrawn."""
    calls = [looped(), looped(ends=Action.CONCLUDE), looped(fate=AFTER, ends_if_it_calls_on=True)]
    assert list(rows(calls)) == ["search x3: 2 ran, tools withdrawn at 2; if the model calls on, the run ends at 3"]


def test_two_loops_of_a_turn_are_two_rows():
    """They have other calls, and other modes."""
    calls = [looped(fate=REFUSED), looped("read", 2, "poll_no_progress", fate=REUSED)]
    assert list(rows(calls)) == ["search x1: 0 ran, 1 refused", "read x1: 0 ran, 1 given an earlier result"]


def test_trips_of_one_mode_are_one_loop():
    """As the two calls of a ping-pong, or the nearly equal ones of a search."""
    calls = [looped("a", 1, "ping_pong"), looped("b", 2, "ping_pong", fate=REFUSED)]
    assert list(rows(calls)) == ["a, b x2: 1 ran, 1 refused"]


def test_a_loop_of_many_different_calls_has_all_calls_of_its_tools():
    """Of more than three tools, three are named."""
    calls = [looped(name, name, "ping_pong", fate=REFUSED) for name in "abcd"] + [LoopCall("a", "other")]
    assert list(rows(calls)) == ["a, b, c, ... x5: 1 ran, 4 refused"]


def test_what_only_observed_says_so():
    """How many were observed is not said: a trip that goes on is not reported at each call."""
    assert list(rows([LoopCall("search", 1), looped(is_observed=True)])) == ["search x2: 2 ran, 1 only observed"]


def test_calls_that_a_guard_would_have_refused_are_counted_apart():
    """The first figure is what a guarded turn does, the second one counts the calls that were made all the same."""
    refused = looped(fate=REFUSED, would_be_refused=True)
    after = looped(fate=AFTER, would_be_refused=True)
    calls = [LoopCall("search", 1), refused, looped(fate=ENDED, ends=Action.ABORT, would_be_refused=True), after]
    assert list(rows(calls)) == [
        "search x4: 1 ran, 1 refused, run ended at 3 (3 of 4 would have been refused)",
    ]


def over(fate: str = REFUSED, **more: object) -> LoopCall:
    """A call beyond a budget."""
    return LoopCall("search", 1, "run_budget", fate=fate, budget="tree.cost", **more)  # type: ignore[arg-type]  # as above


def test_a_budget_is_no_loop_and_has_a_row_of_its_own():
    """With the calls, counted from 1, at which the guard acts."""
    calls = [LoopCall("search", 1), over("ran", is_nudged=True), over("ran"), over(ends=Action.CONCLUDE), over(AFTER)]
    assert list(rows(calls)) == []
    assert list(budget_rows(calls)) == ["budget tree.cost: told at call 2, tools withdrawn at call 4 of 5"]
    calls = [over(), over(), over(ENDED, ends=Action.ABORT)]
    assert list(budget_rows(calls)) == ["budget tree.cost: 2 calls refused from call 1 on, run ended at call 3 of 3"]


def test_a_budget_that_is_only_observed_says_so():
    """With the first call that was beyond it; a result that only came near it has no row."""
    calls = [LoopCall("search", 1), over("ran"), over("ran", is_observed=True), over("ran", is_observed=True)]
    assert list(budget_rows(calls[:2])) == []
    assert list(budget_rows(calls)) == ["budget tree.cost: only observed from call 3 on of 4"]
