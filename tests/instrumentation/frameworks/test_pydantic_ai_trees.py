"""Agents of Pydantic AI that run agents in their tools: the ledger of the tree, and its budgets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is tested in an environment of its own")

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

import otel_loopguard as loopguard
from tests.instrumentation.frameworks.trees_of_agents import Count, TreesOfAgents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.guard.turn import Turn

pytestmark = pytest.mark.filterwarnings("ignore")


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


class TestTreesOfPydanticAI(TreesOfAgents):
    """Trees of this framework."""

    fan, tower, run = staticmethod(fan), staticmethod(tower), staticmethod(run)
