"""deepagents: each agent that its ``task`` tool starts is a child of the run, and budgets hold for the whole tree."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("deepagents", reason="deepagents is tested in an environment of its own")

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

import otel_loopguard as loopguard
from otel_loopguard import Policy, semconv
from otel_loopguard.testing import guarded
from tests.instrumentation.frameworks.langchain.test_trees import (
    LONG,
    LOOK,
    Count,
    Planned,
    each_kind,
    each_way,
    question,
)

pytestmark = pytest.mark.filterwarnings("ignore")


class Boss(Planned):
    """Hands its inputs over to a helper."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        message = super()._generate(messages, **more).generations[0].message
        assert isinstance(message, AIMessage)
        calls: Any = [
            {**one, "args": {"description": one["args"]["task"], "subagent_type": "helper"}}
            for one in message.tool_calls
        ]
        message = AIMessage(message.content, tool_calls=calls, usage_metadata=message.usage_metadata)
        return ChatResult(generations=[ChatGeneration(message=message)])


class Helper(Planned):
    """Looks at two things for each task, in calls that no other helper makes."""

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        own = Planned(count=self.count, tool="look", steps=self.steps)
        return own._generate(messages, **more)


def deep_agent(count: Count, *, at_once: bool) -> tuple[Any, Planned]:
    """Make an agent that starts 30 helpers, and its model."""
    deepagents, inputs = pytest.importorskip("deepagents"), [f"question {number}" for number in range(30)]
    boss = Boss(count=count, tool="task", steps=[inputs] if at_once else [[one] for one in inputs])
    helper = {
        "name": "helper", "description": "Looks at things.", "system_prompt": "Look.", "tools": [LOOK],
        "model": Helper(count=count, tool="look", steps=[["a"], ["b"]]),
    }  # fmt: skip
    return deepagents.create_deep_agent(model=boss, tools=[], subagents=[helper]), boss


def run(agent: Any, *, is_async: bool) -> Any:
    """Run an agent, and return its turn."""
    with loopguard.turn() as turn:
        asked = question("Go on.")
        result = asyncio.run(agent.ainvoke(asked, LONG)) if is_async else agent.invoke(asked, LONG)
        assert result["messages"][-1].content == "Done."
    return turn


@each_way
@each_kind
def test_the_ledger_has_all_that_a_task_takes(*, at_once: bool, is_async: bool) -> None:
    """Also of helpers that run at the same time."""
    count = Count()
    with guarded() as recording:
        turn = run(deep_agent(count, at_once=at_once)[0], is_async=is_async)
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    assert sum(count.asked) == 90
    assert turn.ledger.timeless == count.ledger._replace(children=30, depth=1)
    assert not recording.trips


@each_way
@each_kind
def test_no_more_helpers_are_started_than_the_budget_has(*, at_once: bool, is_async: bool) -> None:
    """The model reads how many were started, and answers."""
    count = Count()
    agent, boss = deep_agent(count, at_once=at_once)
    with guarded(Policy(budget={"tree": {"children": 12}})):
        turn = run(agent, is_async=is_async)
    assert turn.ledger.timeless == count.ledger._replace(calls=36, children=12, depth=1)
    assert any("12 agents were started for this task, and no more may be" in one for one in boss.results)
