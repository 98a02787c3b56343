"""An agent inside a tool that is aborted: the tool has failed, and its own agent goes on."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langgraph")

from langchain_core.tools import tool

from otel_loopguard import Policy, ToolLoopError
from otel_loopguard.testing import Ask, guarded
from tests.scripted.langchain import QUESTION, ScriptedModel, prebuilt_agent

pytestmark = pytest.mark.filterwarnings("ignore")


@tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


def stuck_helper() -> Any:
    """An agent that makes the same call for ever."""
    return prebuilt_agent(ScriptedModel(steps=[[Ask("look", {"path": "a"})]] * 50, seen=[]), [look])


@tool
def ask_helper(path: str) -> str:
    """Ask another agent, which never comes to an end."""
    return str(stuck_helper().invoke(QUESTION)["messages"][-1].content)


@tool
async def ask_helper_later(path: str) -> str:
    """Do the same in async code."""
    return str((await stuck_helper().ainvoke(QUESTION))["messages"][-1].content)


def boss(name: str, asks: int, tools: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(steps=[[Ask(name, {"path": "a"})]] * asks + [[Ask("look", {"path": "b"})]], seen=[])
    return prebuilt_agent(model, tools), model


def test_an_aborted_sub_agent_is_a_failed_call() -> None:
    """The outer agent reads why, and makes its next call."""
    agent, model = boss("ask_helper", 1, [ask_helper, look])
    with guarded(Policy(abort_after=2)) as recording:
        agent.invoke(QUESTION)
        assert "The agent called look again and again" in model.read[0]
        assert model.read[1] == "there is b"
        assert recording.outcomes[0] == "failed"
        assert recording.outcomes[-1] == "executed"
        assert recording.runtime is not None
        assert recording.runtime.guard.live == 0


async def test_the_same_holds_in_async_code() -> None:
    """An async tool with an async sub-agent ends as a failed call, too."""
    agent, model = boss("ask_helper_later", 1, [ask_helper_later, look])
    with guarded(Policy(abort_after=2)):
        await agent.ainvoke(QUESTION)
        assert "The agent called look again and again" in model.read[0]
        assert model.read[1] == "there is b"


def test_an_agent_that_only_asks_an_aborted_one_is_stopped() -> None:
    """The failed call is a call as any other: its repeat is refused, and the outer run ends."""
    agent, _ = boss("ask_helper", 50, [ask_helper, look])
    with guarded(Policy(abort_after=2)), pytest.raises(ToolLoopError) as caught:
        agent.invoke(QUESTION, {"recursion_limit": 200})
    assert caught.value.tool_name == "ask_helper"


class Depth:
    """An agent whose tool hands the same task to a copy of the agent, and who answers once it is told not to."""

    def __init__(self, **arguments: str) -> None:
        self.arguments = arguments
        self.models: list[ScriptedModel] = []

        @tool
        def delegate(task: str) -> str:
            """Give a task to another agent."""
            return str(self.run()["messages"][-1].content)

        self.tools = [delegate]

    def run(self) -> Any:
        """Run one more copy; the 12th does the task itself."""
        deep = len(self.models) + 1
        task = {name: value.format(deep) for name, value in self.arguments.items()}
        self.models.append(ScriptedModel(steps=[[Ask("delegate", task)]] if deep < 12 else [], seen=[]))
        return prebuilt_agent(self.models[-1], self.tools).invoke(QUESTION)


def test_a_task_that_is_handed_on_and_on_comes_back_from_the_third_level() -> None:
    """The third copy may not hand it on; it answers, and so do all above it."""
    depth = Depth(task="find the owner")
    with guarded() as recording:
        assert depth.run()["messages"][-1].content == "Done."
    assert [len(model.seen) for model in depth.models] == [2, 2, 2]
    assert recording.outcomes == ["executed", "executed", "blocked"]
    assert {trip.mode for trip in recording.trips} == {"nested_repeat"}
    assert "Do the task yourself" in depth.models[2].read[0]


def test_a_task_that_each_level_makes_smaller_is_left_alone() -> None:
    """Twelve levels deep, with other arguments on each."""
    depth = Depth(task="part {}")
    with guarded() as recording:
        assert depth.run()["messages"][-1].content == "Done."
    assert len(depth.models) == 12
    assert recording.trips == []
    assert recording.outcomes == ["executed"] * 11
