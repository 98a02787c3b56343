"""``ping_pong``: two calls in turn with equal results. Told at the 2nd lap, refused at the 3rd."""

from __future__ import annotations

from .driver import LONG, WORDS, Driven

MODE = "ping_pong"


def alternated(driven, laps, **more):
    for _ in range(laps):
        driven(path="a", result=f"{LONG} a", **more)
        driven(path="b", result=f"{LONG} b", **more)
    return driven


def test_it_is_told_at_the_end_of_the_2nd_lap_and_refused_at_the_3rd():
    """Of two calls that brought the same results each time."""
    driven = alternated(Driven(), 3)
    assert (driven.told(MODE), driven.refused(MODE)) == ([4], [5])
    assert "The same two calls have now been made in turn 2 times with the same results." in (
        driven.said[3].decision.message
    )
    assert "The same two calls were made in turn, 2 times over, with the same results each time." in (
        driven.said[4].decision.message
    )


def test_laps_of_more_calls_are_none_of_its():
    """They are a ``cycle``."""
    driven = Driven()
    for _ in range(3):
        for path in "abc":
            driven(path=path, result=f"{LONG} {path}")
    assert (driven.told(MODE), driven.refused(MODE)) == ([], [])


def test_another_result_ends_the_laps():
    """What is looked at has changed."""
    driven = Driven(MODE)
    for number in range(20):
        driven(path="a", result=f"{LONG} a")
        driven(path="b", result=f"{LONG} number {number} of its own")
    assert driven.quiet


def test_edits_and_tests_are_no_laps():
    """The write brings something new each time."""
    driven = Driven(MODE)
    for number in range(20):
        driven("write_file", f"{LONG} {number}", path="a", text=number)
        driven("run_tests", LONG, path="a")
    assert driven.quiet


def test_it_has_limits_of_its_own():
    """Those of ``cycle`` are for longer laps."""
    modes = {MODE: {"nudge": 3, "block": 5}, "cycle": {"block": 0, "nudge": 0}}
    driven = alternated(Driven(MODE, modes=modes), 6)
    assert (driven.told(), driven.refused()[0]) == ([6], 9)


def test_once_is_once_a_turn():
    """Not again at twice the laps."""
    tools = {"*": {"modes": {MODE: {"block": 0}}}}
    assert alternated(Driven(MODE, tools=tools), 9).told() == [4, 8, 16]
    assert alternated(Driven(MODE, tools=tools, modes={MODE: {"once": True}}), 9).told() == [4]


def test_who_waited_long_is_not_told():
    """The pause is why it asked again."""
    driven = Driven(MODE)
    for word in WORDS[:6]:
        driven(f"tool_{word}")
    assert alternated(driven, 9, pause=600.0).quiet
