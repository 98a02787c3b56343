"""A signal strikes while a turn judges a call: its handler may raise, or make a call of the same turn.

Each run strikes a third of the places; over many runs all are struck.
"""

from __future__ import annotations

import pytest

from otel_loopguard import Guard, Outcome, Policy, ToolCall
from tests.engine.judges.seed import HINT
from tests.strikes import drawn_places, handled, struck

POLICIES = {
    "default": Policy(),
    "custom": Policy(on_trip=lambda trip: None, detectors=(lambda history, record, rule: None,)),
}


class TimeLimitError(Exception):
    """Raised by a handler."""


def make(turn, path, result="the same"):
    """Make one call; the action that kept it from running, or None."""
    call = ToolCall("read_file", {"path": path})
    decision = turn.begin(call)
    if decision.runs:
        turn.end(call, Outcome(result))
        return None
    return decision.action


def first_calls(turn):
    """Make new calls beside one that runs; in a guard that has met their tool, they take the straight way."""
    beside = ToolCall("read_file", {"path": "beside"})
    turn.begin(beside)
    for number in range(2):
        make(turn, f"new {number}", f"news {number}")
    turn.end(beside, Outcome("done"))
    return turn


def work(turn):
    """Make new calls, and one that repeats in a nested turn and in this one."""
    outer = ToolCall("agent", {})
    turn.begin(outer)
    child = turn.child(outer)
    for _ in range(3):
        make(child, "a")
        make(turn, "a")
    turn.end(outer, Outcome("done"))
    for number in range(3):
        make(turn, f"new {number}", f"news {number}")
    return turn


@pytest.mark.parametrize(("policy", "work"), [("default", first_calls), ("default", work), ("custom", work)])
def test_an_exception_at_any_place_leaves_a_turn_that_works(policy, work):
    """No new call is refused after it, a loop of the same turn is stopped, and no other thread waits."""

    def over(*_):
        raise TimeLimitError

    guard, problems, arrived = Guard(POLICIES[policy]), [], 0
    make(guard.turn(), "met")
    with handled(over):
        for place in drawn_places(lambda: work(guard.turn())):
            turn = guard.turn()
            try:
                struck(place, lambda turn=turn: work(turn))
            except TimeLimitError:
                arrived += 1
            if any(make(turn, f"path {number}", f"text {number}") for number in range(4)):
                problems.append(f"{place}: a new call is refused")
            if not any(make(turn, "b") for _ in range(12)):
                problems.append(f"{place}: a loop is not stopped")
            turn.close()
    assert arrived > 25
    assert problems == [], HINT


@pytest.mark.parametrize(("policy", "work"), [("default", first_calls), ("default", work), ("custom", work)])
def test_a_handler_may_make_a_call_of_the_same_turn(policy, work):
    """It never waits for the code that it interrupts; no new call is refused after it, and a loop is stopped."""
    guard, problems, ran = Guard(POLICIES[policy]), [], []
    turn = guard.turn()
    make(turn, "met")

    def calls(*_):
        ran.append(make(turn, "of the handler", f"news {len(ran)}"))
        make(turn, "new 0", "news 0")
        if work is not first_calls:  # a message ends the straight way
            turn.say("hello")
        guard.turn(turn.id)
        guard.turn().close()

    with handled(calls):
        for place in drawn_places(lambda: work(guard.turn())):
            turn = guard.turn()
            struck(place, lambda turn=turn: work(turn))
            if len(set(turn.current.history.few)) < len(turn.current.history.few):
                problems.append(f"{place}: a call is kept twice as a first one")
            if any(make(turn, f"path {number}", f"text {number}") for number in range(4)):
                problems.append(f"{place}: a new call is refused")
            if not any(make(turn, "b") for _ in range(12)):
                problems.append(f"{place}: a loop is not stopped")
            turn.close()
    assert len(ran) > 25
    assert problems == [], HINT
