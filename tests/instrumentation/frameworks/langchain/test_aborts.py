"""An abort ends the run, even if the code of a node catches the exception."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph

from otel_loopguard import Policy, ToolLoopError
from otel_loopguard.testing import guarded
from otel_loopguard.turns.scope import current_scope
from tests.scripted.langchain import QUESTION, State

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore")

AT_ONCE = Policy(abort_after=1)
MOST_LAPS = 40
ran: list[str] = []


@tool
def look(path: str) -> str:
    """Look at something."""
    ran.append(path)
    return f"there is {path}"


def tool_call(number: int, path: str = "a") -> dict[str, Any]:
    return {"name": "look", "args": {"path": path}, "id": f"call-{number}", "type": "tool_call"}


def read(result: Any) -> HumanMessage:
    """The texts that a node which catches every exception gives to its model."""
    return HumanMessage(result.content if isinstance(result, ToolMessage) else f"it went wrong: {result!r}")


async def gathering(number: int) -> Any:
    (result,) = await asyncio.gather(look.ainvoke(tool_call(number)), return_exceptions=True)
    return result


async def waiting(number: int) -> Any:
    (task,), _ = await asyncio.wait([asyncio.ensure_future(look.ainvoke(tool_call(number)))])
    return task.exception() or task.result()


def catching(number: int) -> Any:
    try:
        return look.invoke(tool_call(number))
    except BaseException as error:
        return error


def pooling(number: int) -> Any:
    with ThreadPoolExecutor() as pool:
        future = pool.submit(look.invoke, tool_call(number))
        return future.exception() or future.result()


def endless(node: Callable[[int], Any], laps: list[int]) -> Any:
    """A graph whose model never stops: each lap is one call."""

    def sync(state: State) -> dict[str, Any]:
        laps.append(1)
        return {"messages": [read(node(len(laps)))]}

    async def asynchronous(state: State) -> dict[str, Any]:
        laps.append(1)
        return {"messages": [read(await node(len(laps)))]}

    graph = StateGraph(State)
    graph.add_node("work", asynchronous if inspect.iscoroutinefunction(node) else RunnableLambda(sync))
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda state: "work" if len(laps) < MOST_LAPS else END)
    return graph.compile()


LONG: Any = {"recursion_limit": 100}


@pytest.mark.parametrize("node", [gathering, waiting])
async def test_an_abort_that_async_code_swallows_ends_the_run(node: Any) -> None:
    """An abort that gather or a task keeps as a result is raised by the run itself, in the same step."""
    laps: list[int] = []
    with guarded(AT_ONCE) as recording:
        with pytest.raises(ToolLoopError):
            await endless(node, laps).ainvoke(QUESTION, LONG)
        assert recording.outcomes == ["executed", "nudged", "blocked", "aborted"]
        assert len(laps) == 4
        assert current_scope() is None
        assert recording.runtime is not None
        assert recording.runtime.guard.live == 0


@pytest.mark.parametrize("node", [catching, pooling])
def test_an_abort_that_a_node_swallows_ends_the_run(node: Any) -> None:
    """A node's ``except BaseException``, a thread pool, or chunks already streamed do not prevent the abort."""
    laps: list[int] = []
    with guarded(AT_ONCE) as recording:
        seen = []
        with pytest.raises(ToolLoopError):
            seen.extend(endless(node, laps).stream(QUESTION, LONG))
        assert recording.outcomes == ["executed", "nudged", "blocked", "aborted"]
        assert len(laps) == 4


async def test_every_further_call_of_the_run_is_aborted() -> None:
    """After an abort no further tool of the node runs in the same step."""

    async def stubborn(state: State) -> dict[str, Any]:
        for number in range(MOST_LAPS):
            await asyncio.gather(
                look.ainvoke(tool_call(number, "a" if number < 4 else f"{number}")), return_exceptions=True
            )
        return {"messages": [HumanMessage("never reached")]}

    graph = StateGraph(State)
    graph.add_node("work", stubborn)
    graph.add_edge(START, "work")
    ran.clear()
    with guarded(AT_ONCE) as recording:
        with pytest.raises(ToolLoopError):
            await graph.compile().ainvoke(QUESTION)
        assert ran == ["a", "a"]
        assert recording.outcomes == ["executed", "nudged", "blocked", *["aborted"] * (MOST_LAPS - 3)]
        assert len(recording.trips) == 3
        assert recording.counted("loopguard.internal_errors") == 0


async def test_an_abort_in_a_sub_graph_ends_the_whole_run() -> None:
    """A sub-graph raises the abort to its outer graph, and ends itself."""
    laps: list[int] = []
    inner = endless(gathering, laps)

    async def outer(state: State) -> dict[str, Any]:
        await asyncio.gather(inner.ainvoke(QUESTION, LONG), return_exceptions=True)
        return {"messages": [HumanMessage("as if nothing had been")]}

    graph = StateGraph(State)
    graph.add_node("work", outer)
    graph.add_edge(START, "work")
    with guarded(AT_ONCE):
        with pytest.raises(ToolLoopError):
            await graph.compile().ainvoke(QUESTION)
        assert len(laps) == 4


async def test_the_next_run_begins_anew() -> None:
    """The abort of one run does not affect the next."""
    with guarded(AT_ONCE) as recording:
        for _ in range(2):
            with pytest.raises(ToolLoopError):
                await endless(gathering, []).ainvoke(QUESTION, LONG)
        assert recording.outcomes == ["executed", "nudged", "blocked", "aborted"] * 2
