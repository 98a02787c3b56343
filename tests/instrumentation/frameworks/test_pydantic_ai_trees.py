"""Agents of Pydantic AI that run agents in their tools: the ledger of the tree, and its budgets."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is tested in an environment of its own")

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

import otel_loopguard as loopguard
from otel_loopguard import Ledger, Policy, RunBudgetError, semconv
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.guard.turn import Turn

pytestmark = pytest.mark.filterwarnings("ignore")


class Count:
    """What the models of a tree were asked, and have written."""

    def __init__(self) -> None:
        self.requests = 0
        self.calls = 0
        self.ids = itertools.count()

    @property
    def ledger(self) -> Ledger:
        """The same as a ledger: each request reads ten tokens, and writes five."""
        return Ledger(self.requests, self.calls, 10 * self.requests, 5 * self.requests, unpriced=self.requests)


class Planned(FunctionModel):
    """Calls one tool with all inputs of a step at once, step by step, and answers then, or if it may call none."""

    def __init__(self, count: Count, tool: str, steps: Sequence[Sequence[str]], *, stubborn: bool = False) -> None:
        super().__init__(self._answer)
        self._count, self._tool, self._steps, self._stubborn = count, tool, steps, stubborn
        self.results: list[str] = []

    def _answer(self, messages: list[Any], info: Any) -> ModelResponse:
        self._count.requests += 1
        results = [part for message in messages for part in message.parts if part.part_kind == "tool-return"]
        self.results = [str(part.content) for part in results]
        step = sum(isinstance(message, ModelResponse) for message in messages)
        withheld = not info.function_tools or (info.model_settings or {}).get("tool_choice") == "none"
        parts: list[Any] = []
        if step < len(self._steps) and (self._stubborn or not withheld):
            parts = [ToolCallPart(self._tool, {"task": one}, self._id()) for one in self._steps[step]]
        self._count.calls += len(parts)
        usage = RequestUsage(input_tokens=10, output_tokens=5)
        return ModelResponse(parts=parts or [TextPart("Done.")], usage=usage)

    def _id(self) -> str:
        return f"call_{next(self._count.ids)}abcdefgh"


def look(task: str) -> str:
    """Look at something."""
    return f"there is {task}"


def asks(agent: Agent[Any, Any], name: str, model: Planned) -> Agent[Any, Any]:
    """Make an agent with a tool that runs another one."""

    async def ask(task: str) -> str:
        return str((await agent.run(task)).output)

    return Agent(model, name=f"boss of {name}", tools=[Tool(ask, name=name, description="Ask an agent.")], retries=20)


def fan(count: Count, *, at_once: bool, **options: Any) -> tuple[Agent[Any, Any], Planned]:
    """Make an agent that asks a helper 60 times, and its model. The helper looks at two things."""
    helper: Any = Agent(Planned(count, "look", [["a"], ["b"]], **options), name="helper", tools=[look], retries=20)
    inputs = [f"question {number}" for number in range(60)]
    model = Planned(count, "ask_helper", [inputs] if at_once else [[one] for one in inputs], **options)
    return asks(helper, "ask_helper", model), model


def tower(count: Count, levels: int) -> Agent[Any, Any]:
    """Make an agent that asks an agent that asks an agent, so many levels deep."""
    agent: Any = Agent(Planned(count, "look", [["a"]]), name="lowest", tools=[look], retries=20)
    for level in range(levels):
        agent = asks(agent, f"ask_{level}", Planned(count, f"ask_{level}", [[f"question {level}"]]))
    return agent


def run(agent: Agent[Any, Any]) -> Turn:
    """Run an agent, and return its turn."""
    with loopguard.turn() as turn:
        assert asyncio.run(agent.run("Go on.", usage_limits=UsageLimits(request_limit=None))).output == "Done."
    return turn


def of_tree(**accounts: Any) -> Policy:
    """A policy with a budget of the tree."""
    return Policy(budget={"tree": accounts})


each_way = pytest.mark.parametrize("at_once", [False, True], ids=["one-by-one", "at-once"])


@each_way
def test_the_ledger_has_all_of_60_agents(*, at_once: bool) -> None:
    """Also of those that run at the same time."""
    count = Count()
    with guarded() as recording:
        turn = run(fan(count, at_once=at_once)[0])
    assert count.calls == 180
    assert turn.ledger.timeless == count.ledger._replace(children=60, depth=1)
    assert not recording.trips
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


@each_way
def test_one_agent_more_than_the_budget_has_is_refused(*, at_once: bool) -> None:
    """The model reads how many were started, and answers."""
    count = Count()
    agent, model = fan(count, at_once=at_once)
    with guarded(of_tree(children=12)):
        turn = run(agent)
    assert [one == "Done." for one in model.results] == [True] * 12 + [False] * 48
    assert "12 agents were started for this task, and no more may be" in model.results[12]
    assert turn.ledger.timeless == count.ledger._replace(calls=36, children=12, depth=1)


def test_a_fan_out_ends_at_the_requests_of_its_tree() -> None:
    """The helpers and their boss are told; the one that is beyond it is asked for an answer, and so is the boss."""
    count = Count()
    agent, model = fan(count, at_once=False)
    with guarded(of_tree(requests=40)) as recording:
        turn = run(agent)
    assert turn.ledger.timeless == count.ledger._replace(children=len(model.results), depth=1)
    assert 40 <= count.requests <= 42
    assert turn.ended_as == "concluded"
    assert {(trip.mode, str(trip.action)) for trip in recording.trips} <= {
        ("run_budget", "nudge"),
        ("run_budget", "conclude"),
    }


def test_agents_that_never_answer_are_ended() -> None:
    """Each is ended with its tools withdrawn, and the boss with ``RunBudgetError``."""
    count = Count()
    with guarded(of_tree(requests=40)), pytest.raises(RunBudgetError):
        run(fan(count, at_once=False, stubborn=True)[0])
    assert count.requests <= 45


def test_a_tower_of_agents_has_its_depth() -> None:
    """Each level is one turn below the other."""
    count = Count()
    with guarded() as recording:
        turn = run(tower(count, 12))
    assert turn.ledger.timeless == count.ledger._replace(children=12, depth=12)
    assert not recording.trips


def test_a_tower_higher_than_its_budget_is_refused_there() -> None:
    """The agent at the limit does the task itself."""
    count = Count()
    with guarded(of_tree(depth=5)) as recording:
        turn = run(tower(count, 12))
    assert turn.ledger.timeless == count.ledger._replace(calls=5, children=5, depth=5)
    assert recording.outcomes.count("blocked") == 1
