"""``cycle``: three to eight calls in the same order with equal results. Told at the 2nd lap, refused at the 3rd."""

from __future__ import annotations

import pytest

from .driver import LONG, Driven

MODE = "cycle"


def went_round(driven, period, laps):
    for _ in range(laps):
        for step in range(period):
            driven(path=f"file {step}", result=f"{LONG} {step}")
    return driven


@pytest.mark.parametrize("period", [3, 4, 8])
def test_it_is_told_at_the_end_of_the_2nd_lap_and_refused_at_the_3rd(period):
    """Of three to eight calls."""
    driven = went_round(Driven(MODE), period, 3)
    assert (driven.told(MODE)[0], driven.refused(MODE)[0]) == (2 * period, 2 * period + 1)
    said = driven.said[2 * period].decision.message
    assert f"The same {period} calls were made in the same order, 2 times over, with the same results." in said


@pytest.mark.parametrize(("period", "longest"), [(9, 8), (12, 8), (5, 4)])
def test_longer_laps_are_none_of_its(period, longest):
    """``max_period`` says how long a lap may be; ``no_novelty`` finds the others."""
    assert went_round(Driven(MODE, modes={MODE: {"max_period": longest}}), period, 5).quiet


def test_two_calls_in_turn_are_none_of_its():
    """Nor laps of four calls that are two laps of two."""
    driven = went_round(Driven(), 2, 4)
    assert (driven.told(MODE), driven.refused(MODE)) == ([], [])


def test_with_ping_pong_switched_off_two_calls_in_turn_are_no_longer_lap():
    """Two laps of two calls are not told as one of four."""
    assert went_round(Driven(MODE, modes={"ping_pong": {"action": "off"}}), 2, 8).quiet


def test_another_order_is_no_lap():
    """The same three calls, in another order each time."""
    driven = Driven(MODE)
    for order in ("abc", "acb", "bca", "bac", "cab", "cba") * 3:
        for path in order:
            driven(path=path, result=f"{LONG} {path}")
    assert driven.refused() == []


def test_one_new_result_in_a_lap_ends_it():
    """One of the three calls brings something new each time."""
    driven = Driven(MODE)
    for number in range(10):
        driven(path="a", result=f"{LONG} a")
        driven(path="b", result=f"{LONG} b")
        driven(path="c", result=f"{LONG} {number} of its own")
    assert driven.quiet


def test_order_turns_both_laps_on_together():
    """They are found by one search."""
    for mode in ("ping_pong", "cycle"):
        assert [bool(went_round(Driven(mode), period, 3).refused()) for period in (2, 3)] == [True, True]
