"""Calls of one message, and calls that an interrupt cuts short: what counts as one call, and what as a repeat."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolContract, semconv
from otel_loopguard.testing import Ask, assert_no_trip, guarded
from tests.scripted.langchain import (
    QUESTION,
    ScriptedModel,
    State,
    own_graph,
    prebuilt_agent,
)

pytestmark = pytest.mark.filterwarnings("ignore")

CONFIG: Any = {"configurable": {"thread_id": "t"}}
BUILDS = pytest.mark.parametrize("build", [own_graph, prebuilt_agent])


@tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


@tool
async def look_later(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


@tool
def send(path: str) -> str:
    """Ask a person first."""
    return f"paid {path}, {interrupt('may I?')}"


def messages(*steps: list[tuple[str, str]]) -> ScriptedModel:
    return ScriptedModel(steps=[[Ask(name, {"path": path}) for name, path in step] for step in steps], seen=[])


def with_checkpoints(build: Any, model: ScriptedModel, tools: list[Any]) -> Any:
    graph = build(model, tools)
    graph.checkpointer = MemorySaver()
    return graph


def resumed(graph: Any, times: int) -> None:
    """Run the graph, and resume it a number of times."""
    graph.invoke(QUESTION, CONFIG)
    for _ in range(times):
        graph.invoke(Command(resume="yes"), CONFIG)


def attribute_of_spans(recording: Any, name: str) -> list[Any]:
    return [span.attributes[name] for span in recording.spans]


# --- one message -------------------------------------------------------------------------------------------------


@BUILDS
def test_equal_calls_of_one_message_are_no_repeats(build: Any) -> None:
    """Equal calls of one message are no repeats, however fast the tool is: the model has read no result yet."""
    with guarded() as recording:
        build(messages([("look", "a")] * 8), [look]).invoke(QUESTION)
        assert recording.outcomes == ["executed"] * 8
        assert_no_trip(recording)


@BUILDS
async def test_equal_async_calls_of_one_message_are_no_repeats(build: Any) -> None:
    """Equal async calls of one message are no repeats, even if the tools never wait."""
    with guarded() as recording:
        await build(messages([("look_later", "a")] * 8), [look_later]).ainvoke(QUESTION)
        assert recording.outcomes == ["executed"] * 8
        assert_no_trip(recording)


@BUILDS
def test_message_after_message_is_a_loop(build: Any) -> None:
    """A call whose result the model has read is a repeat, even if one message makes it three times."""
    with guarded() as recording:
        build(messages(*[[("look", "a")] * 3] * 4), [look]).invoke(QUESTION)
        by_message = [recording.outcomes[start : start + 3] for start in range(0, 12, 3)]
        assert by_message[0] == ["executed"] * 3
        assert sorted(by_message[1]) == ["executed", "executed", "nudged"]
        assert by_message[2:] == [["blocked"] * 3] * 2


def test_a_node_that_loops_itself_is_stopped() -> None:
    """Not all calls of a step are of one message: a node may hold a whole agent."""
    node = ToolNode([look])

    def loop(state: State) -> dict[str, Any]:
        for number in range(5):
            call = {"name": "look", "args": {"path": "a"}, "id": f"c{number}", "type": "tool_call"}
            node.invoke({"messages": [AIMessage("", tool_calls=[call])]})
        return {"messages": [HumanMessage("done")]}

    graph = StateGraph(State)
    graph.add_node("loop", loop)
    graph.add_edge(START, "loop")
    try:
        with guarded() as recording:
            graph.compile().invoke(QUESTION)
            assert recording.outcomes == ["executed", "nudged", "blocked", "blocked", "blocked"]
    except (KeyError, ValueError):
        pytest.skip("this version has no ToolNode outside of a graph")


@BUILDS
def test_runs_of_one_turn_are_not_of_one_message(build: Any) -> None:
    """A program that runs its agent with the same question repeatedly in one turn is stopped."""
    with guarded() as recording, loopguard.turn():
        for _ in range(3):
            build(messages([("look", "a")]), [look]).invoke(QUESTION)
        assert recording.outcomes == ["executed", "nudged", "blocked"]


# --- an interrupt, and what is run again after it ----------------------------------------------------------------


@BUILDS
def test_a_call_that_is_resumed_counts_once(build: Any) -> None:
    """A resumed call counts once in its index, its tool's limit and the turn's number of calls."""
    policy = Policy(tools={"send": ToolContract(cap=2)})
    with guarded(policy) as recording:
        graph = with_checkpoints(build, messages([("send", "a")], [("send", "b")], [("look", "c")]), [send, look])
        resumed(graph, 2)
        assert attribute_of_spans(recording, semconv.CALL_INDEX) == [0, 0, 1, 1, 2]
        assert attribute_of_spans(recording, semconv.OUTCOME) == [
            "cancelled",
            "executed",
            "cancelled",
            "nudged",
            "executed",
        ]
        (point,) = recording.points("loopguard.turn.tool_calls")
        assert (point.count, point.sum) == (1, 3)


@BUILDS
def test_a_call_may_be_interrupted_many_times(build: Any) -> None:
    """A tool that asks eight questions is one call."""

    @tool
    def ask(path: str) -> str:
        """Ask eight questions."""
        return " ".join(str(interrupt(f"question {number}")) for number in range(8))

    with guarded() as recording:
        resumed(with_checkpoints(build, messages([("ask", "a")]), [ask]), 8)
        assert attribute_of_spans(recording, semconv.CALL_INDEX) == [0] * 9
        assert_no_trip(recording)


@BUILDS
def test_calls_beside_an_interrupted_one_are_run_again_as_one_call(build: Any) -> None:
    """If the whole node runs again after each interrupt, calls that have a result already are no repeats."""

    @tool
    def ask(path: str) -> str:
        """Ask four questions."""
        return " ".join(str(interrupt(f"question {number}")) for number in range(4))

    with guarded() as recording:
        resumed(with_checkpoints(build, messages([("look", "a"), ("ask", "b")], [("look", "c")]), [look, ask]), 4)
        assert set(attribute_of_spans(recording, semconv.CALL_INDEX)) == {0, 1, 2}
        assert attribute_of_spans(recording, semconv.CALL_INDEX)[-1] == 2
        assert_no_trip(recording)


@BUILDS
def test_orders_that_somebody_allows_each_time_are_a_loop(build: Any) -> None:
    """A resumed call counts once, and the fourth equal order is refused, whoever allows it. The fifth insists."""
    with guarded() as recording:
        resumed(with_checkpoints(build, messages(*[[("send", "a")]] * 5), [send]), 3)
        assert recording.outcomes == [
            *["cancelled", "executed"],
            *["cancelled", "nudged"],
            *["cancelled", "executed"],
            "blocked",
            "cancelled",
        ]


def test_ids_that_a_model_uses_again_hide_no_loop() -> None:
    """After an interrupt an equal id is the same call once; in the next message it is another call."""

    class Constant(ScriptedModel):
        def _answer(self, asks: Any) -> AIMessage:
            answer = super()._answer(asks)
            for call in answer.tool_calls:
                call["id"] = "call_0"
            return answer

    steps = [[Ask("send", {"path": "a"})], *[[Ask("look", {"path": "a"})]] * 4]
    with guarded() as recording:
        resumed(with_checkpoints(own_graph, Constant(steps=steps, seen=[]), [send, look]), 1)
        assert recording.outcomes == ["cancelled", "executed", "executed", "nudged", "blocked", "blocked"]


async def test_a_bare_call_in_a_node_that_is_resumed_counts_once() -> None:
    """If a node calls its tools itself, the id identifies the resumed call."""

    def work(state: State) -> dict[str, Any]:
        call = {"name": "send", "args": {"path": "a"}, "id": "c1", "type": "tool_call"}
        return {"messages": [ToolMessage(send.invoke(call).content, tool_call_id="c1")]}

    graph = StateGraph(State)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    with guarded() as recording:
        compiled = graph.compile(checkpointer=MemorySaver())
        await asyncio.to_thread(resumed, compiled, 1)
        assert attribute_of_spans(recording, semconv.CALL_INDEX) == [0, 0]
