"""An agent that is stuck, or one that works: a loop by hand over the tools of an MCP server.

    opentelemetry-instrument python examples/mcp_agent.py            # a stuck agent
    opentelemetry-instrument python examples/mcp_agent.py --working  # one that works

The server is this file, run as another program over stdio. The model is a script, so this needs no network and no key.
An MCP session is a connection and not a message of a user, so ``with loopguard.turn():`` marks where that begins and
ends. Without it calls are only observed, never refused.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ToolAnnotations

import otel_loopguard as loopguard

try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:  # version 1
    from mcp.server.fastmcp import FastMCP as Server

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = {
    "install": "pip install otel-loopguard opentelemetry-distro",
    "start": "opentelemetry-instrument python app.py",
    "stop": "OTEL_PYTHON_LOOPGUARD_ACTION=off",
}


def serve() -> None:
    """Run the server: two tools, declared as read-only."""
    server: Any = Server("handbook")
    reads = {"count": 0}

    @server.tool(annotations=ToolAnnotations.model_validate({"readOnlyHint": True}))
    def consult(page: str) -> str:
        """Consult a page of the handbook."""
        reads["count"] += 1
        return PAGES.get(page, "There is no such page.")

    @server.tool(annotations=ToolAnnotations.model_validate({"readOnlyHint": True}))
    def visits() -> str:
        """Count the pages that were consulted."""
        return str(reads["count"])

    server.run("stdio")


def model(pages: list[str], *, stubborn: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """A scripted model: it consults these pages, and gives up when a result is a refusal, unless it is stubborn."""
    for number, page in enumerate(pages, start=1):
        text = yield "consult", {"page": page}
        print(f"  {number:2}. the model reads: {' / '.join(str(text).splitlines())[:150]}")
        if "tool_loop_detected" in str(text) and not stubborn:
            return


async def agent(pages: list[str], *, stubborn: bool) -> None:
    """Run one message of a user, from the question to the answer."""
    server = StdioServerParameters(command=sys.executable, args=[__file__, "--serve"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        await session.list_tools()  # a real model needs the tools; the guard learns which of them only read
        script: Any = model(pages, stubborn=stubborn)
        try:
            with loopguard.turn(conversation_id="handbook-1"):
                text = None
                while (call := next_call(script, text)) is not None:
                    text = text_of(await session.call_tool(*call))
            print("The agent answers: use the handbook.")
        except loopguard.ToolLoopError as error:
            print(f"(no answer: {error})")
        print(f"Pages were consulted {text_of(await session.call_tool('visits'))} times.")


def next_call(script: Any, text: str | None) -> tuple[str, dict[str, Any]] | None:
    """The next call of the model after it has read this text; None: it is done."""
    try:
        return script.send(text)
    except StopIteration:
        return None


def text_of(result: Any) -> str:
    """All text of a result, as the model reads it."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def main() -> None:
    """Run the agent once and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--working", action="store_true", help="an agent that makes progress: it reads each page once")
    parser.add_argument("--stubborn", action="store_true", help="a stuck agent that ignores refusals")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    pages = list(PAGES) if options.working else ["install"] * (30 if options.stubborn else 12)
    print(f"The model asks for the pages {', '.join(pages[:3])}, ...")
    asyncio.run(agent(pages, stubborn=options.stubborn))


if __name__ == "__main__":
    main()
