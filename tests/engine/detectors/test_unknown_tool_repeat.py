"""``unknown_tool_repeat``: calls of tools that do not exist. Told at the 2nd, refused at the 3rd."""

from __future__ import annotations

import json

from .driver import LONG, Driven

MODE = "unknown_tool_repeat"
KNOWN = ("read_file", "write_file")


def made_up(driven, times, **more):
    for number in range(times):
        driven(f"reed_file{number}", error="no such tool", known=KNOWN, **more)
    return driven


def test_it_is_told_at_the_2nd_and_refused_at_the_3rd_by_any_name():
    """With the names of the nearest tools that exist."""
    driven = made_up(Driven(), 3)
    assert (driven.told(MODE), driven.refused(MODE)) == ([2], [3])
    assert driven.said[1].decision.message == (
        "[loopguard] There is no tool named reed_file1. The nearest that exist: read_file, write_file."
    )
    assert json.loads(driven.said[2].decision.message)["message"] == (
        "There is no tool named reed_file2; this is call 3 to a tool that does not exist. "
        "The nearest that exist: read_file, write_file."
    )


def test_a_tool_that_exists_and_works_begins_the_count_again():
    """Two made-up names, a real one, and two more."""
    driven = Driven(MODE)
    for _ in range(4):
        made_up(driven, 2)
        driven("read_file", LONG, known=KNOWN)
    assert driven.refused() == []


def test_where_the_tools_are_not_known_no_call_is_one_of_an_unknown_tool():
    """A framework that does not tell its tools."""
    driven = Driven(MODE)
    for number in range(9):
        driven(f"reed_file{number}", error="no such tool")
    assert driven.quiet


def test_a_tool_that_answers_exists():
    """It is not registered, but a result came back."""
    driven = Driven(MODE)
    for number in range(9):
        driven("hidden_tool", f"{LONG} {number}", known=KNOWN, path=number)
    assert driven.quiet


def test_where_more_tools_may_exist_the_model_can_insist():
    """The refusal says that the name is not registered, and the same call runs."""
    driven = made_up(Driven(MODE), 3, may_exist=True)
    assert driven.refused() == [3]
    assert "is registered" in driven.said[2].decision.message
    assert driven("reed_file2", error="no such tool", known=KNOWN, may_exist=True).runs
