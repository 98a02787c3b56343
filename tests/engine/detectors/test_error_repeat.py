"""``error_repeat``: one tool fails in one way whatever the arguments are. Told at the 3rd, refused at the 10th."""

from __future__ import annotations

from .driver import LONG, Driven

MODE = "error_repeat"
ERROR = "the backend said no"


def failed(driven, times, first=0, error=ERROR):
    for number in range(first, first + times):
        driven("query_api", error=error, key=f"v{number}")
    return driven


def test_it_is_told_at_the_3rd_and_6th_and_refused_at_the_10th():
    """New arguments each time, the same error."""
    driven = failed(Driven(MODE), 10)
    assert (driven.told(), driven.refused()) == ([3, 6], [10])
    assert driven.said[2].decision.message == (
        "[loopguard] query_api has now failed 3 times in the same way. Its arguments may not be the reason. "
        "Do something different."
    )
    assert "query_api failed in the same way 9 times in a row, whatever its arguments were." in (
        driven.said[9].decision.message
    )


def test_the_model_can_insist_and_the_next_new_call_runs():
    """It judges calls that were never made. Insisting has a price, which doubles with each run in vain."""
    driven = failed(Driven(), 10)
    refused = driven.said[9].decision
    assert (refused.trip.mode, refused.trip.insistable) == (MODE, True)
    assert "make the same call again and it will run" in refused.message
    assert driven("query_api", error=ERROR, key="v9").runs
    again = failed(Driven(MODE), 20)
    assert again.refused() == [10, 12, 13, 15, 16, 17, 18, 20]
    assert [("make the same call again" in again.said[at - 1].decision.message) for at in (10, 12, 13)] == [1, 0, 0]


def test_news_resets_the_price_of_insisting():
    """After a success the tool is judged as if it had never failed."""
    driven = failed(Driven(MODE), 10)
    driven("query_api", LONG, key="good")
    for number in range(12):
        driven("query_api", error=ERROR, key=f"w{number}")
    assert driven.refused() == [10, 21, 23]


def test_a_tool_that_worked_is_given_more():
    """Two failures more than it had successes, at most the 20th."""
    for successes, refused in ((5, 10), (12, 14), (40, 20)):
        driven = Driven(MODE)
        for number in range(successes):
            driven("query_api", f"{LONG} {number}", key=f"good {number}")
        failed(driven, 22)
        assert driven.refused()[0] - successes == refused


def test_a_success_ends_the_row():
    """Eight failures and a success, again and again."""
    driven = Driven(MODE)
    for number in range(4):
        failed(driven, 8, first=100 * number)
        driven("query_api", f"{LONG} {number}", key=f"good {number}")
    assert driven.refused() == []


def test_other_errors_and_other_tools_are_no_row():
    """Errors that say something else, and each tool for itself."""
    driven = Driven(MODE)
    for number, error in enumerate(("no such key", "not allowed", "too many rows", "bad date", "empty name") * 4):
        driven("query_api", error=error, key=f"v{number}")
        driven(f"tool_{'abcdefghijklmnopqrst'[number]}", error=ERROR, key=f"v{number}")
    assert driven.refused() == []


def test_a_change_in_between_begins_a_new_row():
    """The program was edited: the next failure may have another reason."""
    driven = Driven(MODE)
    for number in range(30):
        driven("query_api", error=ERROR, key=f"v{number}")
        driven("write_file", f"{LONG} {number}", path="a", text=number)
    assert driven.quiet
