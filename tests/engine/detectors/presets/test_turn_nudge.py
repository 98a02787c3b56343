"""turn_nudge: one warning for the third identical call, at most 30 calls a turn, a warning at 75 % of them."""

from __future__ import annotations

from .driver import Driven


def test_the_third_identical_call_is_warned():
    """The third equal call runs and is nudged, whatever it returned."""
    driven = Driven("turn_nudge")
    heard = []
    for _ in range(3):
        assert driven.runs("X", {"a": 1})
        heard.append(driven.nudge is not None)
    assert heard == [False, False, True]


def test_once_a_turn():
    """No call is warned again in this turn; in the next turn one is."""
    driven = Driven("turn_nudge")
    heard = 0
    for name in "ab":
        for _ in range(8):
            assert driven.runs("X", {"a": name})
            heard += driven.nudge is not None
    assert heard == 1
    driven.next_turn()
    for _ in range(3):
        driven("X", {"a": "a"})
    assert driven.nudge is not None


def test_thirty_calls_a_turn():
    """Thirty calls run, the next one is refused; the next turn has thirty again."""
    driven = Driven("turn_nudge")
    assert [driven.runs("X", {"n": number}) for number in range(31)] == [True] * 30 + [False]
    driven.next_turn()
    assert driven.runs("X", {"n": 0})


def test_the_budget_warning():
    """Only the 23rd call, the first at 75 % of the budget, is nudged with the share that is used up."""
    driven = Driven("turn_nudge")
    heard = []
    for number in range(30):
        driven("X", {"n": number})
        if driven.nudge is not None:
            heard.append((number + 1, driven.nudge))
    ((at, sentence),) = heard
    assert at == 23
    assert "23 of the 30" in sentence


def test_repeats_are_never_refused():
    """A repeat is nudged, and runs until the budget is used up."""
    driven = Driven("turn_nudge")
    assert all(driven.runs("X") for _ in range(30))


def test_both_warnings_are_given_if_they_are_due_at_once():
    """The third identical call is the 23rd of the turn: the warning of the budget comes with the 24th."""
    driven = Driven("turn_nudge")
    heard = {}
    for number in [*range(20), "a", "a", "a", *range(24, 31)]:
        driven("X", {"n": number})
        if driven.nudge is not None:
            heard[driven.turn.calls] = driven.nudge
    assert list(heard) == [23, 24]
    assert "3 times with these arguments" in heard[23]
    assert "24 of the 30" in heard[24]


def test_other_calls_between_do_not_matter():
    """The third identical call is warned wherever the first two were, and whatever they returned."""
    driven = Driven("turn_nudge")
    heard = []
    for number in (1, 2, 1, 3, 1):
        driven("X", {"n": number})
        heard.append(driven.nudge is not None)
    assert heard == [False, False, False, False, True]


def test_calls_beyond_the_budget_are_refused_and_the_run_goes_on():
    """Every further call is refused, also one that was never made; the run is never ended."""
    driven = Driven("turn_nudge")
    for number in range(30):
        driven("X", {"n": number})
    assert {str(driven("Y", {"n": number}).action) for number in range(30)} == {"block"}
    assert driven.turn.calls == 30


def test_a_call_that_failed_is_a_call():
    """Failures count as repeats and for the budget."""
    driven = Driven("turn_nudge")
    for _ in range(3):
        assert driven.runs("X", {"n": 1}, error="no such file")
    assert driven.nudge is not None
    assert [driven.runs("X", {"n": number}, error="no such file") for number in range(28)] == [True] * 27 + [False]
