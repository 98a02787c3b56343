"""repeat_abort: call number max_repeats + 1 with the same arguments ends the run with ToolLoopError."""

from __future__ import annotations

import pytest

import otel_loopguard as loopguard
from otel_loopguard.errors import ToolLoopError
from otel_loopguard.policy_files.load import load_preset

from .driver import Driven


def test_the_fourth_identical_call_aborts():
    """Three equal calls run whatever they return; the fourth ends the run."""
    driven = Driven("repeat_abort")
    assert [driven.runs("X", {"a": 1}) for _ in range(3)] == [True] * 3
    assert str(driven("X", {"a": 1}).action) == "abort"


def test_the_exception_says_exactly_this():
    """ToolLoopError has the text, the tool and the numbers."""

    def looking():
        return "something"

    loopguard.instrument(load_preset("repeat_abort").policy)
    try:
        guarded = loopguard.tool(name="X")(looking)
        with loopguard.turn(conversation_id="c"):
            for _ in range(3):
                guarded()
            with pytest.raises(ToolLoopError) as raised:
                guarded()
    finally:
        loopguard.uninstrument()
    assert str(raised.value) == ('Tool "X" was called 4 times with identical arguments - aborting to prevent a loop')
    assert (raised.value.tool_name, raised.value.repeats, raised.value.mode) == ("X", 4, "generic_repeat")


def test_the_decision_says_the_same():
    """The decision of the guard alone has the preset's text, too."""
    driven = Driven("repeat_abort")
    decision = [driven("X", {"a": 1}) for _ in range(4)][-1]
    assert decision.message == 'Tool "X" was called 4 times with identical arguments - aborting to prevent a loop'


def test_other_arguments_run():
    """Only identical arguments count."""
    driven = Driven("repeat_abort")
    assert all(driven.runs("X", {"a": number}) for number in range(20))


def test_calls_are_counted_wherever_they_are_in_the_turn():
    """Calls in between, and their results, do not matter; the next turn counts from the beginning."""
    driven = Driven("repeat_abort")
    for number in range(3):
        assert driven.runs("X", {"a": 1})
        assert driven.runs("Y", {"b": number})
    assert str(driven("X", {"a": 1}).action) == "abort"
    driven.next_turn()
    assert driven.runs("X", {"a": 1})


def test_max_repeats_is_a_setting():
    """With max_repeats 1 the second call ends the run, and the text has its number."""
    driven = Driven("repeat_abort", "[modes.generic_repeat]\nabort = 2\n")
    assert driven.runs("X")
    assert driven("X").message == 'Tool "X" was called 2 times with identical arguments - aborting to prevent a loop'


def test_nothing_is_refused_or_nudged_before():
    """The three calls before have plain results."""
    driven = Driven("repeat_abort")
    for _ in range(3):
        assert driven("X", result="same").action is None
        assert driven.nudge is None
