"""``global_circuit_breaker``: over the whole turn calls fail (told at 5, refused at 8) or bring no news (100, 200)."""

from __future__ import annotations

from .driver import LONG, WORDS, Driven

MODE = "global_circuit_breaker"


def test_it_is_told_at_the_5th_error_in_a_row_and_refused_at_the_8th():
    """Whatever tools and errors they are; only a call that was made before is refused."""
    driven = Driven(MODE)
    for word in (*WORDS[:4], *WORDS[:5]):
        driven(f"tool_{word}", error=f"{word} is broken", path="a")
    assert (driven.told(), driven.refused()) == ([5], [8])
    assert "The last 5 calls all failed." in driven.said[4].decision.message
    assert "The last 7 calls all failed, and this one has been made before." in driven.said[7].decision.message


def test_one_success_ends_the_row():
    """Of each five calls one works."""
    driven = Driven(MODE)
    for number in range(40):
        if number % 5 == 4:
            driven("read_page", f"{LONG} {number}", path=number)
        else:
            driven(f"tool_{WORDS[number % 4]}", error=f"{WORDS[number % 4]} is broken", path="a")
    assert driven.quiet


def test_a_new_call_may_still_be_tried():
    """Twenty errors of calls that were never made before refuse none of them."""
    driven = Driven(MODE)
    for word in WORDS[:20]:
        driven(f"tool_{word}", error=f"{word} is broken", path="a")
    assert driven.refused() == []


def test_without_news_it_is_told_at_100_and_refused_at_200():
    """They count over the whole turn: each second call brings something new here."""
    driven = Driven(MODE)
    for number in range(202):
        driven(path="again")
        driven(path=number, result=f"{LONG} {number}")
    assert (driven.told(), driven.refused()[0]) == ([2 * 101 - 1], 2 * 201 - 1)
    assert "100 calls of this turn brought nothing new." in driven.said[200].decision.message
    assert "199 calls of this turn brought nothing new, and this one has been" in driven.said[400].decision.message


def test_the_budget_of_the_turn_refuses_the_first_call_beyond_it():
    """New or not; and the model is told to stop."""
    driven = Driven(max_calls=3)
    for number in range(4):
        driven(path=number, result=f"{LONG} {number}")
    assert driven.refused(MODE) == [4]
    message = driven.said[3].decision.message
    assert "A turn may make 3 tool calls, and this one has made them. Stop calling tools" in message


def test_without_a_budget_there_is_no_last_call():
    """``max_calls`` is 0 by default."""
    driven = Driven(MODE)
    for number in range(300):
        driven(path=number, result=f"{LONG} {number}")
    assert driven.quiet


def test_who_waited_as_long_as_the_error_asked_is_not_told():
    """It did what it was told."""
    driven = Driven(MODE)
    for _ in range(7):
        driven(error="429: retry after 30 seconds", pause=30.0)
    assert driven.quiet
