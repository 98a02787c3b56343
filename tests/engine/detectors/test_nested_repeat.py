"""``nested_repeat``: an agent hands its own task on to a copy of itself. Refused at the 3rd."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard import Guard, Outcome, Policy, ToolCall
from tests.engine.detectors.driver import LONG

if TYPE_CHECKING:
    from otel_loopguard.guard.turn import Turn

MODE = "nested_repeat"


def new_turn(**settings: Any) -> Turn:
    """A turn in which no other mode judges."""
    return Guard(Policy(order=(MODE,), **settings), clock=lambda: 0.0).turn()


def hand_on(turn: Turn, deep: int, tool: str = "ask_worker", **arguments: Any) -> list[str]:
    """Call the tool, and in the turn of the agent behind it again, so deep. Return what is said, the outermost first.

    A number in the arguments that is None is the depth.
    """
    given = {name: deep if value is None else value for name, value in arguments.items()}
    call = ToolCall(tool, given)
    begun = turn.begin(call)
    if not begun.runs:
        return [f"refused: {json.loads(begun.message or '')['message']}"]
    inner = hand_on(turn.child(call), deep - 1, tool, **arguments) if deep > 1 else []
    return [turn.end(call, Outcome(LONG)).message or "", *inner]


def test_it_is_refused_at_the_3rd() -> None:
    """All levels above get an answer; the deepest agent reads that it has to do the task."""
    assert hand_on(new_turn(), 12, task="find the owner") == [
        "",
        "",
        "refused: You are inside of 2 equal calls of ask_worker, which wait. Do the task yourself, or say why not.",
    ]


def test_a_policy_may_have_it_told_before() -> None:
    """With a ``nudge`` of 2 the result of the second level has a sentence."""
    said = hand_on(new_turn(modes={MODE: {"nudge": 2}}), 2, task="find the owner")
    assert said[1] == (
        "[loopguard] This call of ask_worker was made inside of an equal one, which waits for it. "
        "Do such a task yourself."
    )


def test_the_tool_behind_a_front_of_the_same_name_is_left_alone() -> None:
    """A search that an agent does with its own search is one level deep."""
    assert hand_on(new_turn(), 2, tool="search", path="a") == ["", ""]


def test_a_task_that_is_made_smaller_is_work() -> None:
    """Other arguments are another task, however deep the agents are."""
    assert hand_on(new_turn(), 40, part=None) == [""] * 40


def test_equal_calls_that_are_not_around_each_other_are_none() -> None:
    """The same task side by side, or again after its end, is for other modes."""
    turn = new_turn()
    calls = [ToolCall("ask_worker", {"task": "look"}) for _ in range(6)]
    assert all(turn.begin(call).runs for call in calls)
    others = [turn.child(ToolCall("ask_worker", {"task": "other"})), turn.child(calls[0])]
    assert others[0].begin(ToolCall("ask_worker", {"task": "look"})).trip is None
    assert others[1].begin(ToolCall("ask_worker", {"task": "part"})).trip is None
    assert all(turn.end(call, Outcome(LONG)).message is None for call in calls)
    assert [hand_on(new_turn(), 1, task="look") for _ in range(3)] == [[""]] * 3


def test_other_calls_in_between_hide_nothing() -> None:
    """Two agents hand one task to each other."""
    turn, said = new_turn(), []
    for tool in ("ask_a", "ask_b", "ask_a", "ask_b", "ask_a", "ask_b"):
        call = ToolCall(tool, {"task": "look"})
        said.append(turn.begin(call).action)
        turn = turn.child(call)
    assert [action and str(action) for action in said] == [None, None, None, None, "block", "block"]


def test_a_run_that_outlives_its_call_is_inside_of_it_no_more() -> None:
    """A task in the background goes on after its call has answered."""
    turn, call = new_turn(), ToolCall("ask_worker", {"task": "look"})
    turn.begin(call)
    child = turn.child(call)
    turn.end(call, Outcome("it was started"))
    assert child.begin(ToolCall("ask_worker", {"task": "look"})).trip is None


@pytest.mark.parametrize(
    "settings", [{"tools": {"ask_worker": {"kind": "step"}}}, {"modes": {MODE: {"action": "off"}}}]
)
def test_it_can_be_declared_as_work(settings: dict[str, Any]) -> None:
    """A tool of the kind ``step`` does something else each time; a policy may switch the mode off."""
    assert hand_on(new_turn(**settings), 12) == [""] * 12
