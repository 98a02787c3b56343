"""The end of a graph's run: its turn waits for a resume if there may be one, and no other state is left."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("langgraph")

from langchain_core.tools import tool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel
from langgraph.types import Command, interrupt

from otel_loopguard import semconv
from otel_loopguard.testing import Ask, guarded
from tests.scripted.langchain import QUESTION, ScriptedModel, own_graph, prebuilt_agent

pytestmark = pytest.mark.filterwarnings("ignore")

CONFIG: Any = {"configurable": {"thread_id": "t"}}
MODES: Any = ("updates", "values", "messages", ["updates", "messages"], ["custom"])
VERSIONS: Any = [{}]
if "version" in Pregel.stream.__kwdefaults__:
    VERSIONS.append({"version": "v2"})


@tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


@tool
def send(path: str) -> str:
    """Ask a person first."""
    return f"paid {path}, {interrupt('may I?')}"


def script(*paths: str, name: str = "look") -> ScriptedModel:
    return ScriptedModel(steps=[[Ask(name, {"path": path})] for path in paths], seen=[])


def turns(recording: Any) -> int:
    return len({span.attributes[semconv.TURN_ID] for span in recording.spans})


def waiting(recording: Any) -> int:
    return int(recording.runtime.guard.live)


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_loop_with_a_human_in_it_is_one_turn(mode: Any, version: Any) -> None:
    """A call repeated across interrupts is refused in every streaming mode."""
    with guarded() as recording:
        agent = prebuilt_agent(script(*["a"] * 6, name="send"), [send], checkpointer=MemorySaver())
        list(agent.stream(QUESTION, CONFIG, stream_mode=mode, **version))
        while agent.get_state(CONFIG).next:
            assert waiting(recording) == 1
            list(agent.stream(Command(resume="yes"), CONFIG, stream_mode=mode, **version))
        assert turns(recording) == 1
        assert "blocked" in recording.outcomes
        assert waiting(recording) == 0


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@pytest.mark.parametrize("mode", MODES, ids=str)
async def test_an_async_loop_with_a_human_in_it_is_one_turn(mode: Any, version: Any) -> None:
    """A call repeated across interrupts is refused with ``astream``, too."""
    with guarded() as recording:
        agent = prebuilt_agent(script(*["a"] * 6, name="send"), [send], checkpointer=MemorySaver())
        given: Any = QUESTION
        while given is QUESTION or (await agent.aget_state(CONFIG)).next:
            async for _ in agent.astream(given, CONFIG, stream_mode=mode, **version):
                pass
            given = Command(resume="yes")
        assert turns(recording) == 1
        assert "blocked" in recording.outcomes
        assert waiting(recording) == 0


@pytest.mark.parametrize("where", ["interrupt_before", "interrupt_after"])
def test_a_run_that_halts_at_a_node_waits(where: str) -> None:
    """A graph with ``interrupt_before`` continues in the same turn."""
    with guarded() as recording:
        agent = prebuilt_agent(script("a", "b"), [look], checkpointer=MemorySaver())
        agent.invoke(QUESTION, CONFIG, **{where: ["tools"]})
        while agent.get_state(CONFIG).next:
            assert waiting(recording) == 1
            agent.invoke(None, CONFIG, **{where: ["tools"]})
        assert len(recording.spans) == 2
        assert turns(recording) == 1
        assert waiting(recording) == 0


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_run_that_ended_leaves_nothing(mode: Any) -> None:
    """A finished run is not kept for a resume, with a checkpointer and in every mode."""
    with guarded() as recording:
        list(prebuilt_agent(script("a"), [look], checkpointer=MemorySaver()).stream(QUESTION, CONFIG, stream_mode=mode))
        assert recording.outcomes == ["executed"]
        assert waiting(recording) == 0


@pytest.mark.parametrize(("checkpointer", "left"), [(None, 0), (MemorySaver(), 1)], ids=["without", "with"])
def test_a_run_that_is_broken_off_waits_only_where_there_is_a_checkpoint(checkpointer: Any, left: int) -> None:
    """A thread id without a checkpoint does not make a run resumable."""
    with guarded() as recording:
        agent = prebuilt_agent(script("a", "b"), [look], checkpointer=checkpointer)
        for _ in agent.stream(QUESTION, CONFIG):
            break
        assert waiting(recording) == left


@pytest.mark.parametrize(("checkpointer", "left"), [(None, 0), (MemorySaver(), 1)], ids=["without", "with"])
def test_a_run_that_failed_waits_only_where_there_is_a_checkpoint(checkpointer: Any, left: int) -> None:
    """A run that failed is kept for a resume only if it has a checkpoint."""

    @tool
    def fail(path: str) -> str:
        """Fail."""
        raise LookupError(path)

    with guarded() as recording:
        graph = own_graph(script("a", name="fail"), [fail], handle_tool_errors=False)
        graph.checkpointer = checkpointer
        with pytest.raises(LookupError):
            graph.invoke(QUESTION, CONFIG)
        assert waiting(recording) == left


def test_a_run_that_ran_out_of_steps_can_be_gone_on_with() -> None:
    """A run resumed after its step limit is the same turn, and its loop is refused."""
    with guarded() as recording:
        graph = own_graph(script(*["a"] * 4), [look])
        graph.checkpointer = MemorySaver()
        for given in (QUESTION, None, None):
            with suppress(GraphRecursionError):
                graph.invoke(given, {**CONFIG, "recursion_limit": 4})
        assert recording.outcomes[:3] == ["executed", "nudged", "blocked"]
        assert turns(recording) == 1


def test_an_interrupt_without_a_checkpoint_leaves_nothing() -> None:
    """An interrupted run without a checkpoint cannot be resumed, and leaves no turn."""
    with guarded() as recording:
        with suppress(RuntimeError):  # newer versions return the interrupt and raise nothing
            prebuilt_agent(script("a", name="send"), [send]).invoke(QUESTION, CONFIG)
        assert recording.outcomes in (["cancelled"], ["failed"])
        assert waiting(recording) == 0


def test_a_thread_id_that_the_graph_was_made_with_is_its_conversation() -> None:
    """``with_config``: the conversation has its name, and a resume finds its turn."""
    with guarded() as recording:
        agent = prebuilt_agent(script("a", "a", name="send"), [send], checkpointer=MemorySaver()).with_config(CONFIG)
        agent.invoke(QUESTION)
        for _ in range(2):
            agent.invoke(Command(resume="yes"))
        assert {span.attributes[semconv.CONVERSATION_ID] for span in recording.spans} == {"t"}
        assert turns(recording) == 1
        assert recording.outcomes.count("nudged") == 1


def test_the_thread_id_of_the_call_comes_first() -> None:
    """The configuration of a run has precedence over that of its graph."""
    with guarded() as recording:
        graph = own_graph(script("a"), [look]).with_config({"configurable": {"thread_id": "of the graph"}})
        graph.invoke(QUESTION, CONFIG)
        assert {span.attributes[semconv.CONVERSATION_ID] for span in recording.spans} == {"t"}
