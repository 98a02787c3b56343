"""Agents of the OpenAI Agents SDK that run agents: the ledger of the tree, and its budgets."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("agents", reason="openai-agents is tested in an environment of its own")

from agents import Agent, GuardrailFunctionOutput, Runner, function_tool, output_guardrail
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall

import otel_loopguard as loopguard
from otel_loopguard import Policy
from otel_loopguard.testing import guarded
from tests.instrumentation.frameworks.trees_of_agents import Count, TreesOfAgents
from tests.scripted.openai_agents import config, text_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.guard.turn import Turn

pytestmark = pytest.mark.filterwarnings("ignore")


class Planned(Model):  # type: ignore[misc,unused-ignore]  # the base class is untyped in some versions
    """Calls one tool with all inputs of a step at once, step by step, and answers then, or if it may call none."""

    def __init__(self, count: Count, tool: str, steps: Sequence[Sequence[str]], *, stubborn: bool = False) -> None:
        self._count, self._tool, self._steps, self._stubborn = count, tool, steps, stubborn
        self.results: list[str] = []

    async def get_response(self, *_: Any, **given: Any) -> ModelResponse:
        """Answer at once."""
        self._count.requests += 1
        items = [] if isinstance(given["input"], str) else given["input"]
        self.results = [str(item["output"]) for item in items if item.get("type") == "function_call_output"]
        step = next(
            number
            for number, passed in enumerate(itertools.accumulate(map(len, [[], *self._steps])))
            if passed >= len(self.results)
        )
        may_call = self._stubborn or given["model_settings"].tool_choice != "none"
        calls = [self._call(one) for one in self._steps[step]] if may_call and step < len(self._steps) else []
        self._count.calls += len(calls)
        usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
        return ModelResponse(output=calls or [text_message("Done.")], usage=usage, response_id=None)

    async def stream_response(self, *_: Any, **__: Any) -> Any:
        """Not used here."""
        raise NotImplementedError
        yield

    def _call(self, given: str) -> ResponseFunctionToolCall:
        arguments, call_id = (
            json.dumps({"task" if self._tool == "look" else "input": given}),
            f"call_{next(self._count.ids)}abcdefgh",
        )
        return ResponseFunctionToolCall(type="function_call", name=self._tool, arguments=arguments, call_id=call_id)


@function_tool
def look(task: str) -> str:
    """Look at something."""
    return f"there is {task}"


def asks(agent: Agent[Any], name: str, model: Model) -> Agent[Any]:
    """Make an agent that has another one as its tool."""
    return Agent(name=f"boss of {name}", model=model, tools=[agent.as_tool(name, "Ask an agent.")])


def fan(count: Count, *, at_once: bool, **options: Any) -> tuple[Agent[Any], Planned]:
    """Make an agent that asks a helper 60 times, and its model. The helper looks at two things."""
    helper = Agent(name="helper", model=Planned(count, "look", [["a"], ["b"]], **options), tools=[look])
    inputs = [f"question {number}" for number in range(60)]
    model = Planned(count, "ask_helper", [inputs] if at_once else [[one] for one in inputs], **options)
    return asks(helper, "ask_helper", model), model


def tower(count: Count, levels: int, **options: Any) -> Agent[Any]:
    """Make an agent that asks an agent that asks an agent, so many levels deep."""
    agent = Agent(name="lowest", model=Planned(count, "look", [["a"]], **options), tools=[look])
    for level in range(levels):
        agent = asks(agent, f"ask_{level}", Planned(count, f"ask_{level}", [[f"question {level}"]], **options))
    return agent


def run(agent: Agent[Any]) -> Turn:
    """Run an agent, and return its turn."""
    with loopguard.turn() as turn:
        result = asyncio.run(Runner.run(agent, "Go on.", max_turns=100, run_config=config(tracing_disabled=True)))
        assert result.final_output == "Done."
    return turn


class TestTreesOfTheAgentsSDK(TreesOfAgents):
    """Trees of this framework."""

    fan, tower, run = staticmethod(fan), staticmethod(tower), staticmethod(run)


def test_an_answer_at_the_budget_is_checked_by_a_guardrail() -> None:
    """The agent in the guardrail asks a model once more: that is no run that goes on, and the ledger has it."""
    count, checked = Count(), []
    judge = Agent(name="judge", model=Planned(count, "look", []))

    @output_guardrail
    async def check(_: Any, __: Any, answer: str) -> GuardrailFunctionOutput:
        checked.append((await Runner.run(judge, f"Is this right? {answer}")).final_output)
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)

    model = Planned(count, "look", [["a"], ["b"], ["c"], ["d"]])
    with guarded(Policy(budget={"tree": {"requests": 2}})):
        turn = run(Agent(name="helper", model=model, tools=[look], output_guardrails=[check]))
    assert checked == ["Done."]
    assert turn.ledger.timeless == count.ledger._replace(calls=1)
    assert count.requests == 4


def test_a_hand_off_is_no_agent_more() -> None:
    """The next agent goes on in the same turn: its requests are the turn's, and the hand-off is a call."""
    count = Count()
    second = Agent(name="second", model=Planned(count, "look", [["a"], ["b"], ["c"]]), tools=[look])
    first = Agent(name="first", model=Planned(count, "transfer_to_second", [["over"]]), handoffs=[second])
    with guarded() as recording:
        turn = run(first)
    assert Counter(recording.outcomes) == {"executed": turn.ledger.calls}
    assert turn.ledger.timeless == count.ledger
