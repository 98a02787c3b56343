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
