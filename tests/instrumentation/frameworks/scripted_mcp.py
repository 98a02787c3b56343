"""MCP servers made of functions, the ways to reach them, and a hand-written agent with a scripted model.

Run as a program it is such a server, over stdio.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import mcp
import uvicorn
from mcp import ClientSession, StdioServerParameters
from mcp.client import streamable_http
from mcp.client.stdio import stdio_client

import otel_loopguard as loopguard
from otel_loopguard.testing import Transcript

try:
    from mcp.client.client import Client
    from mcp.server.mcpserver import Image, MCPServer
except ImportError:  # version 1
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.server.fastmcp import Image
    from mcp.shared.memory import create_connected_server_and_client_session

    Client = None

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from otel_loopguard.testing import Ask

    Tools = Mapping[str, Callable[..., Any]]

__all__ = ["Client", "Image", "MCPServer", "annotations", "over_http", "over_memory", "over_stdio", "server_of"]


def server_of(tools: Tools, **annotated: Any) -> Any:
    """A server with these tools; keywords are their annotations."""
    server = MCPServer("test")
    for name, function in tools.items():
        server.tool(annotations=annotated.get(name))(function)
    return server


def annotations(**hints: bool) -> Any:
    """A tool's annotations by their names on the wire, which every version takes."""
    return mcp.types.ToolAnnotations.model_validate(hints)


# --- transports --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def over_memory(server: Any) -> AsyncIterator[Any]:
    """A session with a server in this process."""
    if Client is None:
        async with create_connected_server_and_client_session(server._mcp_server) as session:
            yield session
    else:
        async with Client(server) as client:
            yield client.session


@asynccontextmanager
async def by_client(server: Any) -> AsyncIterator[Any]:
    """The client object that version 2 has around its session."""
    async with Client(server) as client:
        yield client


@asynccontextmanager
async def over_http(server: Any) -> AsyncIterator[Any]:
    """A session with a server behind a port."""
    connect = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client
    with serving(server) as url:
        async with connect(url) as streams, ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            yield session


@contextmanager
def serving(server: Any) -> Iterator[str]:
    """The server runs in a thread of its own, on a port that the system chooses."""
    config = uvicorn.Config(server.streamable_http_app(), host="127.0.0.1", port=0, log_level="error")
    web = uvicorn.Server(config)
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not web.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        web.should_exit = True
        thread.join(timeout=20)


@asynccontextmanager
async def over_stdio() -> AsyncIterator[Any]:
    """A session with this file, run as a program."""
    program = StdioServerParameters(command=sys.executable, args=["-m", __name__])
    async with stdio_client(program) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


# --- the agent ---------------------------------------------------------------------------------------------------


def driver(connect: Callable[[Any], Any]) -> Any:
    """A driver for the table of scenarios, that reaches the tools this way."""

    def drive(tools: Tools, steps: Sequence[Sequence[Ask]]) -> Transcript:
        async def run() -> Transcript:
            async with connect(server_of(tools)) as session:
                return await agent(session, steps)

        return asyncio.run(asyncio.wait_for(run(), 60))

    return drive


async def agent(session: Any, steps: Sequence[Sequence[Ask]]) -> Transcript:
    """One message of a user: lists the tools, then makes the calls of each step at the same time."""
    transcript = Transcript()
    await session.list_tools()
    with loopguard.turn():
        try:
            for step in steps:
                results = await asyncio.gather(*(session.call_tool(ask.tool, ask.arguments) for ask in step))
                transcript.read += [text_of(result) for result in results]
        except loopguard.ToolLoopError as error:
            transcript.error = error
    return transcript


def text_of(result: Any) -> str:
    """What a model reads of a result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def failed(result: Any) -> bool:
    """Whether the result says that it is an error."""
    return bool(getattr(result, "is_error", getattr(result, "isError", False)))


def structured(result: Any) -> Any:
    """The structured content, if this version has any."""
    return getattr(result, "structured_content", getattr(result, "structuredContent", None))


DRIVERS = {"memory": driver(over_memory), "http": driver(over_http)}
if Client is not None:
    DRIVERS["client"] = driver(by_client)


if __name__ == "__main__":
    counted = {"ran": 0}

    def count() -> str:
        """How often this ran."""
        counted["ran"] += 1
        return "so often"

    def often() -> str:
        """How often ``count`` ran."""
        return f"count ran {counted['ran']} times"

    server_of({"count": count, "often": often}).run("stdio")
