"""A budget is told at three quarters, concluded at the whole, and ends the run that goes on; agents are refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard import Action, Guard, Ledger, Outcome, Policy, PolicyError, ToolCall, Turn
from otel_loopguard.engine.vocabulary import RUN_BUDGET
from tests.engine.judges.corpus import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER = Ledger(requests=1, input_tokens=80, output_tokens=20, cost=0.5)


def turn_of(budget: dict[str, Any], clock: Any = None, **more: Any) -> Turn:
    """A turn under a policy with this budget."""
    return Guard(Policy(budget=budget, **more), clock=clock or Clock()).turn()


def act(turn: Turn, number: int, tool: str = "read_file") -> Any:
    """Make a call that brings news. Return the decision about it, or about its result."""
    call = ToolCall(tool, {"path": number})
    decision = turn.begin(call)
    return turn.end(call, Outcome(f"the text of {number}")) if decision.runs else decision


def steps(turn: Turn, most: int = 30, *, concludes: bool = True) -> list[str]:
    """The actions about calls, one after each request, until a run ends. A model heeds a conclusion, or goes on."""
    found = []
    for number in range(most):
        turn.spend(ANSWER)
        action = act(turn, number).action
        found.append("-" if action is None else str(action))
        if action is Action.ABORT or (turn.conclude() is not None and concludes):
            break
    return found


@pytest.mark.parametrize(
    ("budget", "run"),
    [
        ({"requests": 8}, 7),
        ({"calls": 8}, 8),
        ({"tokens": 800}, 7),
        ({"input_tokens": 640}, 7),
        ({"output_tokens": 160}, 7),
        ({"cost": 4.0}, 7),
    ],
)
@pytest.mark.parametrize("scope", ["turn", "tree"])
def test_each_account_is_told_once_and_then_concluded(scope: str, budget: dict[str, Any], run: int) -> None:
    """New work is withheld: the user has said how much there may be."""
    found = steps(turn_of({scope: budget}))
    assert found == ["-"] * 5 + ["nudge"] + ["-"] * (run - 6) + ["conclude"]


def test_a_model_that_goes_on_after_that_is_ended() -> None:
    """Its next call after the request without tools."""
    assert steps(turn_of({"turn": {"tokens": 200}}), concludes=False) == ["-", "conclude", "abort"]


def test_a_run_whose_tools_are_never_withdrawn_is_ended_by_its_refusals() -> None:
    """Where nobody reads the requests, ``abort_after`` counts."""
    turn = turn_of({"turn": {"calls": 2}})
    found = [act(turn, number).action for number in range(13)]
    assert found[2:] == [Action.CONCLUDE, *[Action.BLOCK] * 9, Action.ABORT]


def test_the_calls_of_one_message_are_refused_and_do_not_end_the_run() -> None:
    """The model wrote them before it read the first refusal."""
    turn = turn_of({"turn": {"calls": 2}})
    act(turn, 0)
    act(turn, 1)
    calls = [ToolCall("read_file", {"path": number}, written=turn.tick) for number in range(2, 6)]
    assert [turn.begin(call).action for call in calls] == [Action.CONCLUDE, *[Action.BLOCK] * 3]


def test_the_sentences_tell_what_is_spent_and_what_may_be() -> None:
    """Cost in the currency of the policy."""
    turn = turn_of({"tree": {"cost": 2.0}}, currency="EUR")
    for _ in range(3):
        turn.spend(ANSWER)
    assert act(turn, 0).message == (
        "[loopguard] This task and its agents may use 2 EUR, and 1.5 are used: come to an end, and say what is missing."
    )
    turn.spend(ANSWER)
    refusal = json.loads(act(turn, 1).message)
    assert (refusal["error"], refusal["mode"]) == ("run_budget_spent", RUN_BUDGET)
    assert refusal["message"].startswith("This task and its agents may use 2 EUR, and 2 are used. Stop calling tools")
    assert str(turn.conclude()).startswith(
        "[loopguard] This task and its agents may use 2 EUR, and 2 are used. No tool"
    )


def test_time_is_counted_from_the_first_step() -> None:
    """Not from the making of the turn."""
    clock = Clock()
    turn = turn_of({"turn": {"seconds": 100}}, clock)
    clock.now += 500
    assert act(turn, 0).action is None
    clock.now += 80
    assert act(turn, 1).action is Action.NUDGE
    clock.now += 30
    assert act(turn, 2).action is Action.CONCLUDE


def test_news_lifts_no_budget_and_is_no_recovery() -> None:
    """It is no loop."""
    turn = turn_of({"turn": {"calls": 4}})
    decisions = [act(turn, number) for number in range(4)]
    assert [one.action for one in decisions] == [None, None, Action.NUDGE, None]
    assert [one.recovered for one in decisions] == [()] * 4
    trip = decisions[2].trip
    assert (trip.mode, trip.reason, trip.count, trip.limit, trip.is_loop) == (RUN_BUDGET, "turn.calls", 3, 4, False)


def nest(turn: Turn, number: int) -> Turn | None:
    """Start an agent; None if that is refused."""
    call = ToolCall("research", {"task": number})
    return turn.child(call) if turn.begin(call).runs else None


def test_an_agent_too_many_is_refused_and_the_run_goes_on() -> None:
    """The tool is known by the first agent that began inside of it. Other calls run."""
    turn = turn_of({"tree": {"children": 3}})
    assert [nest(turn, number) is not None for number in range(5)] == [True, True, True, False, False]
    decision = turn.begin(ToolCall("research", {"task": 6}))
    assert decision.action is Action.BLOCK
    assert json.loads(str(decision.message))["message"].startswith("3 agents were started for this task")
    assert act(turn, 0).action is None
    assert not turn.conclusion_due


def test_agents_that_have_not_begun_yet_are_counted() -> None:
    """188 calls of one message, of a tool whose name says that it starts agents."""
    turn = turn_of({"tree": {"children": 12}})
    calls = [ToolCall("task", {"task": number}, written=turn.tick) for number in range(188)]
    assert [turn.begin(call).runs for call in calls] == [True] * 12 + [False] * 176
    children = [turn.child(call) for call in calls[:12]]
    assert turn.ledger.children == len(children) == 12


def test_agents_too_deep_are_refused() -> None:
    """A tree of depth 2 has the agents of the outermost turn and theirs."""
    turn = turn_of({"tree": {"depth": 2}})
    first = nest(turn, 0)
    assert first is not None
    second = nest(first, 1)
    assert second is not None
    assert nest(second, 2) is None
    assert act(second, 0).action is None


def test_a_tree_has_one_budget_and_each_turn_its_own() -> None:
    """What an agent spends counts for the tree, and not for the turn around it."""
    turn = turn_of({"tree": {"requests": 5}, "turn": {"requests": 3}})
    children = [child for number in range(2) if (child := nest(turn, number)) is not None]
    for child in children:
        child.spend(ANSWER)
        child.spend(ANSWER)
    assert act(turn, 0).trip.reason == "tree.requests"  # 4 of 5
    children[0].spend(ANSWER)
    decisions = [act(one, 9) for one in (children[0], children[1], turn)]
    assert [one.action for one in decisions] == [Action.CONCLUDE] * 3
    assert {one.trip.reason for one in decisions} == {"tree.requests"}


@pytest.mark.parametrize(("policy", "expected"), [({"action": "observe"}, 30), ({}, 3)])
def test_a_policy_that_observes_lets_all_run(policy: dict[str, Any], expected: int) -> None:
    """The trip is there all the same. ``budget.action`` observes the budgets alone."""
    for settings in ({"budget": {"turn": {"calls": 3}}, **policy}, {"budget": {"turn": {"calls": 3}, **policy}}):
        turn = Guard(Policy(**settings)).turn()  # type: ignore[arg-type]  # it is of the typed form
        decisions = [act(turn, number) for number in range(30)]
        assert sum(
            one.record is not None and one.action in (None, Action.OBSERVE, Action.NUDGE) for one in decisions
        ) == (expected)
        assert any(one.trip and one.trip.reason == "turn.calls" for one in decisions)


@pytest.mark.parametrize(
    ("budget", "problem"),
    [
        ({"tre": {}}, "budget.tre: no such part of a budget; did you mean tree?"),
        ({"tree": {"token": 3}}, "budget.tree.token = 3: no such account of a tree; did you mean tokens?"),
        ({"turn": {"depth": 3}}, "budget.turn.depth = 3: no such account of a turn"),
        ({"tree": {"calls": -1}}, "budget.tree.calls = -1: must be a whole number, 0 or more"),
        ({"tree": {"cost": "5 EUR"}}, "budget.tree.cost = '5 EUR': must be a number, 0 or more"),
        ({"tree": 3}, "budget.tree = 3: must be a mapping"),
        ({"action": "stop"}, "budget.action = 'stop': must be one of"),
    ],
)
def test_a_budget_with_a_mistake_is_named(budget: dict[str, Any], problem: str) -> None:
    """With its place, its value and the remedy."""
    with pytest.raises(PolicyError) as raised:
        Policy(budget=budget)
    assert problem in str(raised.value)


def test_a_budget_of_nothing_refuses_the_first_call() -> None:
    """A limit of 0 is a limit."""
    assert act(turn_of({"turn": {"calls": 0}}), 0).action is Action.CONCLUDE


def conversation(budget: dict[str, Any], clock: Clock | None = None, **more: Any) -> Callable[[], Turn]:
    """Return what begins the next turn of one conversation, under a policy with this budget of it."""
    guard = Guard(Policy(budget={"conversation": budget}, **more), clock=clock or Clock())
    return lambda: guard.turn(conversation_id="c")


@pytest.mark.parametrize(
    "budget", [{"requests": 8}, {"calls": 8}, {"tokens": 800}, {"cost": 4.0}, {"seconds": 8.0}], ids=str
)
def test_the_turns_of_a_conversation_have_one_budget(budget: dict[str, Any]) -> None:
    """Three turns of three steps: the model is told near the end of the second, and once more in the third."""
    clock = Clock()
    begins = conversation(budget, clock)
    found = []
    for number in range(3):
        with begins() as turn:
            for step in range(3):
                turn.spend(ANSWER)
                action = act(turn, 10 * number + step).action
                found.append("-" if action is None else str(action))
                clock.now += 1.0 if "seconds" in budget else 0.0
                turn.thought(1.0 if "seconds" in budget else 0.0)
        clock.now += 100.0
    assert found[:5] == ["-"] * 5
    assert [one for one in found[5:] if one != "-"][:2] == ["nudge", "nudge"] or "seconds" in budget
    assert "conclude" in found[7:]


def test_another_conversation_has_its_own_budget() -> None:
    """So has a turn of none, and a conversation that was not used for longer than it is remembered."""
    clock = Clock()
    guard = Guard(Policy(budget={"conversation": {"calls": 2}}, conversation_idle=60.0), clock=clock)

    def runs(conversation_id: str | None) -> list[bool]:
        with guard.turn(conversation_id=conversation_id) as turn:
            return [act(turn, number).action is not Action.CONCLUDE for number in range(3)]

    assert runs("a") == runs("b") == runs(None) == [True, True, False]
    assert runs("a") == [False, True, True]
    clock.now += 61.0
    assert runs("a") == [True, True, False]


def test_the_agents_of_all_turns_of_a_conversation_are_counted() -> None:
    """The call that would start one too many is refused. A turn knows the tool by its first agent."""
    begins = conversation({"children": 3})
    started = []
    for turn_number in range(3):
        with begins() as turn:
            started += [nest(turn, 10 * turn_number + number) is not None for number in range(2)]
    assert started == [True, True, True, False, True, False]
