"""An MCP server with the tools, and a loop by hand at the client's end of the session."""

# mypy: disable-error-code="import-not-found"
# It is not among what development installs: each framework has an environment of its own.

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from otel_loopguard.errors import ToolLoopError
from otel_loopguard.instrumentation.turn_api import turn

try:
    from mcp.client.client import Client
    from mcp.server.mcpserver import MCPServer
except ImportError:  # version 1
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.shared.memory import create_connected_server_and_client_session

    Client = None

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from otel_loopguard.cli.demo.model import Model


@asynccontextmanager
async def _session(server: Any) -> AsyncIterator[Any]:
    if Client is None:
        async with create_connected_server_and_client_session(server._mcp_server) as session:  # noqa: SLF001 - as its own tests do
            yield session
    else:
        async with Client(server) as client:
            yield client.session


def run(tools: Mapping[str, Callable[..., str]], model: Model) -> None:
    """One message of a user."""
    server = MCPServer("demo", log_level="CRITICAL")
    for tool in tools.values():
        server.tool()(tool)
    error = asyncio.run(_talk(server, model))
    if error is not None:
        raise error


async def _talk(server: Any, model: Model) -> ToolLoopError | None:
    """What ended the run, if something did: within the session it would be wrapped into groups."""
    async with _session(server) as session:
        await session.list_tools()
        try:
            await _turn(session, model)
        except ToolLoopError as error:
            return error
    return None


async def _turn(session: Any, model: Model) -> None:
    read: list[str] = []
    with turn(agent_name="demo"):
        while (ask := model.next(read)) is not None:
            result = await session.call_tool(ask.tool, ask.arguments)
            read.append("\n".join(block.text for block in result.content if block.type == "text"))
