"""MCP servers made of functions, the ways to reach them, and a loop by hand with a scripted model.

Run as a program, it is such a server over stdio.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import mcp
from mcp import ClientSession, StdioServerParameters
from mcp.client import streamable_http
from mcp.client.stdio import stdio_client

import otel_loopguard as loopguard
from otel_loopguard.testing import Transcript
from tests.scripted import next_calls

try:
    from mcp.client.client import Client
    from mcp.server.mcpserver import Image, MCPServer
except ImportError:  # version 1
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.server.fastmcp import Image
    from mcp.shared.memory import create_connected_server_and_client_session

    Client = None

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.scripted import Steps, Tools

__all__ = ["Client", "Image", "MCPServer", "over_http", "over_memory", "over_stdio", "server_of", "tool_annotations"]


def server_of(tools: Tools, **annotated: Any) -> Any:
    """Make a server with these tools; keywords are their annotations."""
    server = MCPServer("test", log_level="CRITICAL")
    for name, function in tools.items():
        server.tool(annotations=annotated.get(name))(function)
    return server


def tool_annotations(**hints: bool) -> Any:
    """Make annotations by their names on the wire, which every version takes."""
    return mcp.types.ToolAnnotations.model_validate(hints)


# --- transports --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def over_memory(server: Any) -> AsyncIterator[Any]:
    """Open a session with a server in this process."""
    if Client is None:
        async with create_connected_server_and_client_session(server._mcp_server) as session:
            yield session
    else:
        async with Client(server) as client:
            yield client.session


@asynccontextmanager
async def by_client(server: Any) -> AsyncIterator[Any]:
    """Open the client object that version 2 has around its session."""
    async with Client(server) as client:
        yield client


@asynccontextmanager
async def over_http(server: Any) -> AsyncIterator[Any]:
    """Open a session with a server behind a port."""
    connect = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client
    with serving(server) as url:
        async with connect(url) as streams, ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            yield session


@contextmanager
def serving(server: Any) -> Iterator[str]:
    """Run the server in a thread of its own, on a port that the system chooses."""
    import uvicorn

    config = uvicorn.Config(server.streamable_http_app(), host="127.0.0.1", port=0, log_level="error")
    web = uvicorn.Server(config)
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    for _ in range(2_000):
        if web.started:
            break
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        web.should_exit = True
        thread.join(timeout=20)


@asynccontextmanager
async def over_stdio() -> AsyncIterator[Any]:
    """Open a session with this file, run as a program."""
    program = StdioServerParameters(command=sys.executable, args=["-m", __name__])
    async with stdio_client(program) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


# --- the agent ---------------------------------------------------------------------------------------------------


def driver(connect: Callable[[Any], Any]) -> Any:
    """Make a driver that reaches the tools this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        async def talk() -> Transcript:
            async with connect(server_of(tools)) as session:
                return await agent(session, steps)

        return asyncio.run(asyncio.wait_for(talk(), 60))

    return drive


async def agent(session: Any, steps: Steps) -> Transcript:
    """Run one turn: list the tools, then make the calls of each step at the same time.

    The error is caught within the session, whose task groups would wrap it.
    """
    transcript = Transcript()
    await session.list_tools()
    with loopguard.turn(agent_name="helper"):
        try:
            for step in itertools.count():
                asks = next_calls(steps, step)
                if not asks:
                    break
                results = await asyncio.gather(*(session.call_tool(ask.tool, ask.arguments) for ask in asks))
                transcript.read += [text_of(result) for result in results]
        except loopguard.ToolLoopError as error:
            transcript.error = error
    return transcript


def text_of(result: Any) -> str:
    """The text of a result, as a model reads it."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def failed(result: Any) -> bool:
    """True if the result is marked as an error."""
    return bool(getattr(result, "is_error", getattr(result, "isError", False)))


def structured(result: Any) -> Any:
    """The structured content of a result, if this version has any."""
    return getattr(result, "structured_content", getattr(result, "structuredContent", None))


DRIVERS = {"memory": driver(over_memory), "http": driver(over_http)}
if Client is not None:
    DRIVERS["client"] = driver(by_client)


if __name__ == "__main__":
    counted = {"ran": 0}

    def count() -> str:
        """Count this call."""
        counted["ran"] += 1
        return "so often"

    def often() -> str:
        """Say how often ``count`` ran."""
        return f"count ran {counted['ran']} times"

    def read_settings() -> dict[str, str]:
        """Return an object."""
        return {"color": "green"}

    server_of({"count": count, "often": often, "read_settings": read_settings}).run("stdio")
