"""Which turns are equal, and which end a row or are no part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_loopguard import Guard, Outcome, Policy, ToolCall
from otel_loopguard.turns.equal_turns import EqualTurns

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.guard.turn import Turn


def turn(guard: Guard, *calls: tuple[str, str], **options: str) -> Turn:
    """A turn with these calls, each of a path and a result."""
    one = guard.turn(**options)
    for path, result in calls:
        one.ran(ToolCall("read_file", {"path": path}), Outcome(result))
    return one


def longest(*turns: Turn) -> int:
    """The longest row of these turns."""
    rows = EqualTurns()
    for one in turns:
        rows.over(one)
    return rows.longest


def test_equal_calls_with_equal_results_are_a_row() -> None:
    """Other arguments, another result, another number of calls each begin a row of their own."""
    guard = Guard()
    assert longest(*(turn(guard, ("a", "x")) for _ in range(5))) == 5
    for others in ([("b", "x")], [("a", "y")], [("a", "x"), ("b", "x")]):
        assert longest(turn(guard, ("a", "x")), turn(guard, *others), turn(guard, ("a", "x"))) == 1


def nested() -> Turn:
    """The turn of a sub-agent."""
    call = ToolCall("delegate", {})
    outer = Guard().turn()
    outer.begin(call)
    return outer.child(call)


@pytest.mark.parametrize(
    "between",
    [Guard().turn, nested, lambda: Guard(Policy(scope="conversation")).turn(conversation_id="night")],
    ids=["without calls", "nested", "remembered"],
)
def test_some_turns_are_no_part_of_a_row(between: Callable[[], Turn], request: pytest.FixtureRequest) -> None:
    """They neither count nor end it: an answer without calls, a sub-agent, a conversation that the policy watches."""
    guard, other = Guard(), between()
    if "without" not in request.node.name:
        other.ran(ToolCall("read_file", {"path": "b"}), Outcome("y"))
    assert longest(turn(guard, ("a", "x")), other, turn(guard, ("a", "x"))) == 2


def test_open_turns_count_as_if_they_were_over_and_only_once() -> None:
    """To ask twice, as the doctor does, changes nothing."""
    guard, rows = Guard(), EqualTurns()
    rows.over(turn(guard, ("a", "x")))
    still_open = [turn(guard, ("a", "x")), turn(guard, ("a", "x"))]
    assert [rows.longest_with(still_open) for _ in range(2)] == [3, 3]
    assert rows.longest == 1
