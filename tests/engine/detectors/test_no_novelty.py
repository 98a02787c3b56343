"""``no_novelty``: calls in a row bring nothing new, in any order. Told at the 5th, refused at the 8th."""

from __future__ import annotations

from .driver import LONG, Driven

MODE = "no_novelty"


def swept(driven, files=20, times=2, **more):
    for _ in range(times):
        for number in range(files):
            driven(path=number, result=f"{LONG} {number}", **more)
    return driven


def test_it_is_told_at_the_5th_and_refused_at_the_8th():
    """Twenty files are read, and then read again from the first on."""
    driven = swept(Driven(MODE))
    assert (driven.told(), driven.refused()[0]) == ([25], 28)
    assert "The last 5 calls brought nothing new." in driven.said[24].decision.message
    assert (
        "The last 7 calls brought nothing new, and this one has been made before." in driven.said[27].decision.message
    )


def test_one_new_result_begins_the_row_again():
    """Of each five calls one brings news."""
    driven = swept(Driven(MODE), times=1)
    for number in range(20):
        for place in range(4):
            driven(path=place, result=f"{LONG} {place}")
        driven(path=f"new {number}", result=f"{LONG} new {number}")
    assert driven.quiet


def test_only_a_call_that_was_made_before_is_refused():
    """A new call may bring news."""
    driven = swept(Driven(MODE))
    assert driven(path="new", result=f"{LONG} new").runs


def test_a_change_since_a_call_last_ran_keeps_it_from_being_refused():
    """The files were edited after the first sweep."""
    driven = swept(Driven(MODE), times=1)
    driven("write_file", f"{LONG} written", path=0)
    swept(driven, times=1)
    assert driven.refused() == []


def test_calls_that_prove_little_count_less():
    """Nineteen checks of a job are not yet five calls."""
    driven = Driven(MODE)
    for _ in range(19):
        driven("get_build_status", "running", build=7)
    assert driven.quiet
