"""An aborted run leaves a conversation that models accept: its last call is answered before the run ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode

from otel_loopguard import Policy, ToolLoopError
from otel_loopguard.testing import Ask, guarded
from tests.scripted.langchain import QUESTION, ScriptedModel, State, prebuilt_agent

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.filterwarnings("ignore")

SOON = Policy(abort_after=2)
THREAD: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 100}
CALLS = 5
"""One runs, one is nudged, two are refused, one aborts the run."""


@tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


def unanswered(messages: Sequence[Any]) -> list[str]:
    """The ids of calls without a result, for which providers refuse a conversation."""
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    asked = [call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    return [one for one in asked if one not in answered]


class StrictModel(ScriptedModel):
    """Refuses a conversation with a call that has no result, as providers do. Loops until a second question comes."""

    def _generate(self, messages: Any, *_: Any, **__: Any) -> Any:
        assert unanswered(messages) == []
        if sum(isinstance(message, HumanMessage) for message in messages) > 1:
            self.steps = []
        return super()._generate(messages)


def model_of(*asks: Ask) -> StrictModel:
    return StrictModel(steps=[list(asks)] * 50, seen=[])


def invoke(agent: Any, config: Any) -> None:
    agent.invoke(QUESTION, config)


def ainvoke(agent: Any, config: Any) -> None:
    asyncio.run(agent.ainvoke(QUESTION, config))


def stream(agent: Any, config: Any) -> None:
    for _ in agent.stream(QUESTION, config, stream_mode="updates"):
        pass


def astream(agent: Any, config: Any) -> None:
    async def go() -> None:
        async for _ in agent.astream(QUESTION, config, stream_mode=["values", "messages"]):
            pass

    asyncio.run(go())


def with_sub_graph(model: ScriptedModel, tools: Any, **options: Any) -> Any:
    """A graph whose only node is the agent."""
    graph = StateGraph(State)
    graph.add_node("agent", prebuilt_agent(model, tools))
    graph.add_edge(START, "agent")
    return graph.compile(**options)


def by_hand(model: ScriptedModel, tools: Any, **options: Any) -> Any:
    """A graph whose own node calls the tools, without a ToolNode."""

    def work(state: State) -> dict[str, Any]:
        return {"messages": [look.invoke(call) for call in state["messages"][-1].tool_calls]}  # type: ignore[union-attr]

    graph = StateGraph(State)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", work)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    return graph.compile(**options)


WAYS = [invoke, ainvoke, stream, astream]
AGENTS = [prebuilt_agent, with_sub_graph, by_hand]


@pytest.mark.parametrize("agent_of", AGENTS, ids=lambda agent: agent.__name__)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_after_an_abort_the_same_thread_answers_the_next_question(way: Any, agent_of: Any) -> None:
    """The run ends in ``ToolLoopError`` after the same number of requests; its thread goes on."""
    model = model_of(Ask("look", {"path": "a"}))
    with guarded(SOON) as recording:
        agent = agent_of(model, [look], checkpointer=MemorySaver())
        with pytest.raises(ToolLoopError) as caught:
            way(agent, THREAD)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
        assert len(model.seen) == CALLS
        assert recording.outcomes == ["executed", "nudged", "blocked", "blocked", "aborted"]
        for _ in range(2):
            way(agent, THREAD)
        assert unanswered(agent.get_state(THREAD).values["messages"]) == []
        assert len(model.seen) == CALLS + 2


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_without_a_checkpoint_the_run_ends_at_the_same_call(way: Any) -> None:
    """No further request is made to the model after the aborting call."""
    model = model_of(Ask("look", {"path": "a"}))
    with guarded(SOON):
        with pytest.raises(ToolLoopError):
            way(prebuilt_agent(model, [look]), {"recursion_limit": 100})
        assert len(model.seen) == CALLS


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_call_of_the_aborting_message_is_answered(way: Any) -> None:
    """Calls that were made at the same time as the aborting one have results, too."""
    model = model_of(*(Ask("look", {"path": path}) for path in "abc"))
    with guarded(SOON):
        agent = prebuilt_agent(model, [look], checkpointer=MemorySaver())
        with pytest.raises(ToolLoopError):
            way(agent, THREAD)
        messages = agent.get_state(THREAD).values["messages"]
        assert unanswered(messages) == []
        assert "tool_loop_detected" in str(messages[-1].content) + str(messages[-3].content)
        way(agent, THREAD)


def test_a_node_that_loops_by_itself_ends() -> None:
    """A node that asks its model in a loop of its own, and never leaves it, is ended at its next call."""
    requests: list[int] = []

    def work(state: State) -> dict[str, Any]:
        while len(requests) < 50:
            requests.append(1)
            call = {"name": "look", "args": {"path": "a"}, "id": f"call-{len(requests)}", "type": "tool_call"}
            node.invoke({"messages": [AIMessage("", tool_calls=[call])]})
        return {"messages": []}

    node = ToolNode([look])
    graph = StateGraph(State)
    graph.add_node("work", RunnableLambda(work))
    graph.add_edge(START, "work")
    with guarded(SOON):
        with pytest.raises(ToolLoopError):
            graph.compile().invoke(QUESTION)
        assert len(requests) <= CALLS + 1


def test_a_user_who_stops_the_run_finds_a_conversation_that_goes_on() -> None:
    """The end of a run that was stopped by its user leaves no call without a result."""
    import otel_loopguard as loopguard

    @tool
    def stop(path: str) -> str:
        """Let the user stop the run."""
        loopguard.say("stop", conversation_id="t", stop=True)
        return path

    model = model_of(Ask("stop", {"path": "a"}))
    with guarded(SOON):
        agent = prebuilt_agent(model, [stop], checkpointer=MemorySaver())
        with pytest.raises(ToolLoopError):
            agent.invoke(QUESTION, THREAD)
        agent.invoke(QUESTION, THREAD)
