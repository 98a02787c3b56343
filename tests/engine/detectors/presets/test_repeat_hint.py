"""repeat_hint: call number max_repeats + 1 with the same arguments gets a hint instead of a result."""

from __future__ import annotations

from .driver import Driven

HINT = (
    '[loop-detected] Tool "X" has now been called {} times with identical arguments. Consider trying a different '
    "approach, changing the arguments, or finishing the response."
)


def test_three_run_and_the_fourth_gets_the_hint():
    """Three equal calls run whatever they return; the fourth gets exactly this text."""
    driven = Driven("repeat_hint")
    assert [driven.runs("X", {"a": 1}) for _ in range(3)] == [True] * 3
    assert driven("X", {"a": 1}).message == HINT.format(4)


def test_the_number_goes_on():
    """Calls that got the hint count: the next hint has the next number."""
    driven = Driven("repeat_hint")
    for _ in range(4):
        driven("X", {"a": 1})
    assert driven("X", {"a": 1}).message == HINT.format(5)


def test_it_is_marked():
    """Refusals have the mark for programs that search for it; results do not."""
    driven = Driven("repeat_hint")
    marks = [driven("X", {"a": 1}).mark for _ in range(4)]
    assert marks == [None, None, None, "loop-detected"]


def test_other_arguments_and_other_calls_between():
    """Repeats count wherever they are in the turn; other arguments are counted separately."""
    driven = Driven("repeat_hint")
    for number in range(3):
        assert driven.runs("X", {"a": 1})
        assert driven.runs("X", {"b": number})
    assert not driven.runs("X", {"a": 1})
    assert driven.runs("X", {"b": 0})


def test_max_repeats_is_a_setting():
    """With max_repeats 1 the second call gets the hint."""
    driven = Driven("repeat_hint", "[modes.generic_repeat]\nblock = 2\n")
    assert [driven.runs("X") for _ in range(2)] == [True, False]


def test_the_run_goes_on():
    """The hint never ends the run."""
    driven = Driven("repeat_hint")
    assert {str(driven("X").action) for _ in range(40)} == {"None", "block"}
