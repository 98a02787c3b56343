"""Claude Agent SDK with the Claude Code that it brings, over a scripted model, and a driver for each way to ask."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, create_sdk_mcp_server, query, tool

from otel_loopguard import ToolLoopError
from otel_loopguard.testing import Transcript
from tests.hooks.programs.agent import QUESTION, Steps, key_in, key_of
from tests.hooks.programs.claude_code import ClaudeCode
from tests.models.scripts import call
from tests.models.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.models.conversation import Asked
    from tests.models.scripts import Script, Step
    from tests.scripted import Steps as Asks
    from tests.scripted import Tools

PREFIX = "mcp__test__"
"""What Claude Code puts before the names of the tools in this process."""


class Session:
    """A home of Claude Code, and the model that it asks."""

    def __init__(self, program: ClaudeCode, server: Server) -> None:
        self.program, self.server = program, server

    def options(self, *functions: Callable[..., Any], **more: Any) -> ClaudeAgentOptions:
        """Make the options of an agent with these tools, in this process."""
        server = create_sdk_mcp_server("test", tools=[*map(_tool, functions)])
        settings = self.program.environment(self.program.configure(self.server.url))
        return ClaudeAgentOptions(**{
            "model": "claude-sonnet-4-5", "mcp_servers": {"test": server}, "permission_mode": "bypassPermissions",
            "cwd": self.program.work, "env": settings, **more,
        })  # fmt: skip

    def asked(self, question: str = QUESTION) -> list[Asked]:
        """The requests of a conversation."""
        found = [one.asked for one in self.server.exchanges if one.asked and one.asked.tools]
        return [asked for asked in found if key_of(asked) == key_in(question)]

    def read(self, question: str = QUESTION) -> list[str]:
        """The results that the model has read in a conversation."""
        return [result.text for result in self.asked(question)[-1].results]


@contextmanager
def session(
    steps: Callable[[ClaudeCode], Sequence[Step | Script]], delegated: Sequence[Step] = ()
) -> Iterator[Session]:
    """Serve a model that makes these steps, which may name what is in the home."""
    with tempfile.TemporaryDirectory(prefix="sdk-", ignore_cleanup_errors=True) as folder:
        program = ClaudeCode(Path(folder))
        program.made()
        with Server(Steps(steps(program), delegated)).running() as server:
            yield Session(program, server)


def _tool(function: Callable[..., Any]) -> Any:
    async def run(arguments: dict[str, Any]) -> dict[str, Any]:
        result = function(**arguments)
        text = str(await result if inspect.isawaitable(result) else result)
        return {"content": [{"type": "text", "text": text}]}

    return tool(function.__name__, function.__doc__ or "", dict.fromkeys(inspect.signature(function).parameters, str))(
        run
    )


async def by_query(options: Any, question: str = QUESTION) -> list[Any]:
    """Ask once. Return the messages."""
    return [message async for message in query(prompt=question, options=options)]


async def by_client(options: Any, question: str = QUESTION) -> list[Any]:
    """Ask through a client that stays connected."""
    async with ClaudeSDKClient(options) as client:
        await client.query(question)
        return [message async for message in client.receive_response()]


def driver(go: Callable[..., Any]) -> Any:
    """Make a driver that asks this way."""

    def drive(tools: Tools, steps: Asks) -> Transcript:
        made = [tuple(call(PREFIX + ask.tool, **ask.arguments) for ask in asks) for asks in steps]
        transcript = Transcript()
        with session(lambda _: made) as one:
            try:
                asyncio.run(go(one.options(*tools.values())))
            except ToolLoopError as error:
                transcript.error = error
            transcript.read = one.read()
        return transcript

    return drive


DRIVERS = {"query": driver(by_query), "client": driver(by_client)}
