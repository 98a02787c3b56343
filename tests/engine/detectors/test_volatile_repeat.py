"""``volatile_repeat``: only ids, and numbers seen before, differ. Told at the 5th, refused at the 20th."""

from __future__ import annotations

from uuid import uuid4

import pytest

from .driver import LONG, WORDS, Driven

MODE = "volatile_repeat"


def repeated(driven, times, result, tool="read_page", **more):
    for number in range(times):
        driven(tool, result(number), path="a", **more)
    return driven


def to_and_fro(number):
    """Return a result whose number goes up and down, so that it is no progress, among eight values."""
    number %= 8
    return f"{LONG} The value is {number if number % 2 else 9_000 - number:05d} now."


def ever_new(number):
    """Return a result whose number goes up and down, and was never seen before."""
    return f"{LONG} The value is {number if number % 2 else 9_000 - number:05d} now."


def test_it_is_told_at_the_5th_and_refused_at_the_20th():
    """Counted from the first result in which only the number differs."""
    driven = repeated(Driven(MODE), 40, to_and_fro)
    told = next(one.decision for one in driven.said if one.action == "told" and not one.decision.trip.reason)
    assert "This is call 8 with these arguments; only ids and numbers differ in what it returns." in told.message
    refused = driven.said[driven.refused()[0] - 1].decision
    assert (driven.refused()[0], refused.trip.count, refused.trip.limit) == (27, 20, 20)
    assert "was called 19 times with these arguments; only ids and numbers seen before differed." in refused.message


@pytest.mark.parametrize("tool", ["get_price", "get_status", "t17"])
def test_a_number_that_was_never_seen_is_news(tool):
    """A price, the load of a host, a dice: the model is told at the 10th, and nothing is refused."""
    driven = repeated(Driven(), 200, ever_new, tool)
    assert driven.refused() == []
    told = next(one.decision for one in driven.said if one.decision.trip and one.decision.trip.reason == "numbers")
    assert told.trip.count == 10
    assert "only numbers are new in what it returns." in told.message


@pytest.mark.parametrize("result", [lambda _: str(uuid4()), lambda _: {"id": str(uuid4())}])
def test_a_result_that_is_nothing_but_an_id_is_news(result):
    """Ids may be what the tool is for."""
    assert repeated(Driven(), 60, result, "t17").refused() == []


def test_a_result_that_is_nothing_but_a_time_is_no_news():
    """A clock that is asked again and again."""
    driven = repeated(Driven(), 60, lambda n: f"2026-11-27T10:{n % 60:02d}:00Z", "get_time")
    assert driven.refused() != []


def test_a_new_number_excuses_no_other_call():
    """A clock or a price between two equal reads is no change."""
    driven = Driven()
    for number in range(12):
        driven("get_price", ever_new(number), symbol="a")
        driven("read_page", LONG, path="a")
    assert driven.refused("generic_repeat") != []


def test_one_call_in_a_row_is_told_at_the_8th_whatever_it_returns():
    """At the 32nd if its results are new."""
    driven = Driven(MODE)
    for number in range(10):
        driven("read_page", f"{LONG} {'to' if number % 2 else 'fro'}", path="a")
    assert driven.told()[0] == 8
    assert "This is at least call 8 with the same arguments." in driven.said[7].decision.message
    words = [f"{LONG} and a word of its own: {chr(97 + n // 26)}{chr(97 + n % 26)}x" for n in range(40)]
    driven = Driven(MODE)
    for word in words:
        driven("read_page", word, path="a")
    assert (driven.told(), driven.refused()) == ([32], [])


def test_numbers_that_move_on_are_progress():
    """12 of 400, 13 of 400: each is news."""
    driven = Driven(MODE)
    for number in range(31):
        driven("read_page", f"{LONG} {number} of 400 rows are done.", path="a")
    assert driven.quiet


def test_a_change_in_between_begins_again():
    """A write brought something new since the last run."""
    driven = Driven(MODE)
    for number in range(40):
        driven("read_page", to_and_fro(number), path="a")
        driven("write_file", f"{LONG} {number}", path="a", text=number)
    assert driven.refused() == []


def test_other_calls_are_none_of_its():
    """New arguments each time."""
    driven = Driven(MODE)
    for number in range(40):
        driven("read_page", to_and_fro(number), path=number)
    assert driven.quiet


def test_who_waited_long_is_not_told():
    """The pause is why it asked again."""
    driven = Driven(MODE)
    for word in WORDS[:6]:
        driven(f"tool_{word}")
    assert repeated(driven, 40, to_and_fro, pause=600.0).quiet
