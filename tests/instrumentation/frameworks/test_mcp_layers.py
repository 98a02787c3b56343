"""Frameworks that call through MCP sessions: the patches of both see one call, which is counted once."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

pytest.importorskip("mcp")

from otel_loopguard import Policy, semconv
from otel_loopguard.instrumentation.frameworks import mcp as adapter
from otel_loopguard.testing import Ask, Recording, guarded

pytestmark = pytest.mark.filterwarnings("ignore")

PROGRAM = {"command": sys.executable, "args": ["-m", "tests.scripted.mcp"]}
STEPS = [[Ask("count", {})]] * 5


async def by_langchain(steps: Any = STEPS) -> list[str]:
    """LangGraph with LangChain's adapters. Return the results that the model read, as all of these do."""
    pytest.importorskip("langchain_mcp_adapters.client", exc_type=ImportError)  # it does not import with mcp 2
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    from tests.scripted.langchain import QUESTION, ScriptedModel, prebuilt_agent

    async with MultiServerMCPClient({"s": {**PROGRAM, "transport": "stdio"}}).session("s") as session:
        tools = await load_mcp_tools(session)
        model = ScriptedModel(steps=steps, seen=[])
        await prebuilt_agent(model, tools).ainvoke(QUESTION)
        return model.read


async def by_openai_agents(steps: Any = STEPS) -> list[str]:
    """The OpenAI Agents SDK with a server of its own."""
    pytest.importorskip("agents")
    from agents import Agent, Runner
    from agents.mcp import MCPServerStdio

    from tests.scripted.openai_agents import ScriptedModel

    async with MCPServerStdio(PROGRAM) as server:
        model = ScriptedModel(steps)
        await Runner.run(Agent(name="helper", model=model, mcp_servers=[server]), "Go on.", max_turns=30)
        return model.read


async def by_pydantic_ai(steps: Any = STEPS) -> list[str]:
    """Pydantic AI with a toolset that is a server."""
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset

    from tests.scripted.pydantic_ai import Script

    server: Any = MCPToolset({"mcpServers": {"s": PROGRAM}})
    script = Script(steps)
    async with Agent(script.model(), toolsets=[server], retries=20) as agent:
        await agent.run("Go on.")
    return script.read


each_framework = pytest.mark.parametrize(
    "framework", [by_langchain, by_openai_agents, by_pydantic_ai], ids=lambda way: way.__name__
)


@each_framework
async def test_a_call_through_a_framework_is_one_call(framework: Any) -> None:
    """Five attempted calls have five of our spans and are counted as five; repeats do not reach the server."""
    with guarded() as recording:
        await asyncio.wait_for(framework(), 60)
        assert names(recording) == ["execute_tool count"] * 5
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 5
        assert recording.outcomes == ["executed", "nudged", "blocked", "blocked", "blocked"]
        types = {(span.attributes or {})[semconv.TOOL_TYPE] for span in recording.spans}
        assert types == {semconv.TYPE_EXTENSION}


@each_framework
@pytest.mark.parametrize("tool", ["count", "read_settings"])
async def test_the_model_reads_each_sentence_that_counts_as_delivered(framework: Any, tool: str) -> None:
    """A text alone and an object take a sentence, and the rest of the result stays."""
    with guarded(Policy(action="nudge")) as recording:
        read = await asyncio.wait_for(framework([[Ask(tool, {})]] * 4), 60)
        assert recording.outcomes == ["executed", "nudged", "nudged", "nudged"]
        assert ["[loopguard]" in text for text in read] == [False, True, True, True]
        assert all(("so often" if tool == "count" else "green") in text for text in read)


async def test_what_a_server_says_is_heard_through_langchain() -> None:
    """LangChain's adapters pass a server's hints on with the tool."""
    pytest.importorskip("langchain_mcp_adapters.tools", exc_type=ImportError)
    from langchain_mcp_adapters.tools import load_mcp_tools

    from tests.scripted.langchain import QUESTION, ScriptedModel, prebuilt_agent
    from tests.scripted.mcp import over_memory, server_of, tool_annotations

    def frobnicate(path: str) -> str:
        return "ok"

    hints = tool_annotations(readOnlyHint=True)
    with guarded() as recording:
        async with over_memory(server_of({"frobnicate": frobnicate}, frobnicate=hints)) as session:
            model = ScriptedModel(steps=[[Ask("frobnicate", {"path": "a"})]], seen=[])
            await prebuilt_agent(model, await load_mcp_tools(session)).ainvoke(QUESTION)
        assert [(span.attributes or {})[semconv.TOOL_KIND] for span in recording.spans] == ["read"]


async def test_fastmcp_by_its_own_client() -> None:
    """FastMCP's client ends in a session, too."""
    fastmcp = pytest.importorskip("fastmcp")
    import otel_loopguard as loopguard

    server = fastmcp.FastMCP("test")

    @server.tool
    def look(path: str) -> str:
        return "there it is"

    with guarded() as recording:
        async with fastmcp.Client(server) as client:
            with loopguard.turn():
                for _ in range(4):
                    await client.call_tool("look", {"path": "a"}, raise_on_error=False)
        assert recording.outcomes == ["executed", "nudged", "blocked", "blocked"]
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 4


def names(recording: Recording) -> list[str]:
    return [span.name for span in recording.spans]


def test_the_table_names_public_methods_only() -> None:
    """The adapter patches only functions that every client calls, so an update of the SDK keeps them."""
    assert all("._" not in point.path for point in adapter.FRAMEWORK.targets)
