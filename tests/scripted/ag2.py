"""A model configuration for AG2 that follows a script, and a driver for each way of running an agent with it."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

from ag2 import Agent, tool
from ag2.config import ModelConfig
from ag2.events import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallEvent,
    ToolCallsEvent,
    ToolResultsEvent,
)

from otel_loopguard.testing import Ask
from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools

_numbers = itertools.count()


class Script(ModelConfig):
    """Makes the calls of its steps, one step a request, and keeps the requests."""

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        self.steps = steps
        self.answer = answer
        self.seen: list[list[Any]] = []

    def copy(self) -> Script:
        """Return the same script, which all agents with it follow."""
        return self

    def create(self) -> Any:
        """Return the client, which is a function."""
        return self._respond

    async def _respond(self, messages: Sequence[Any], context: Any, **_: Any) -> ModelResponse:
        self.seen.append(list(messages))
        step = 0  # counted from the last message of the user: a conversation may have several
        for message in messages:
            step = 0 if isinstance(message, ModelRequest) else step
            step += isinstance(message, ToolResultsEvent)
        asked = next_calls(self.steps, step)
        if not asked:
            message = ModelMessage(self.answer)
            await context.send(message)
            return ModelResponse(message)
        calls = [
            ToolCallEvent(ask.tool, id=f"call-{next(_numbers)}", arguments=json.dumps(ask.arguments)) for ask in asked
        ]
        return ModelResponse(tool_calls=ToolCallsEvent(calls))

    @property
    def returned(self) -> list[Any]:
        """The tool results in the last request."""
        last = self.seen[-1] if self.seen else []
        return [result for one in last if isinstance(one, ToolResultsEvent) for result in one.results]

    @property
    def read(self) -> list[str]:
        """The text of the tool results in the last request."""
        return ["\n".join(str(getattr(part, "content", part)) for part in one.result.parts) for one in self.returned]


def plain_tools(functions: Tools) -> list[Any]:
    """Make tools of plain functions, which run in a thread."""
    return [tool(function, name=name) for name, function in functions.items()]


def async_tools(functions: Tools) -> list[Any]:
    """Make async tools."""
    return plain_tools({name: _async_tool(function) for name, function in functions.items()})


def _async_tool(function: Callable[..., Any]) -> Callable[..., Any]:
    async def run(path: str) -> str:
        return str(function(path))

    return run


def agent_of(script: Script, tools: Sequence[Any] = (), **options: Any) -> Agent:
    """Build an agent that follows this script."""
    return Agent("helper", config=script, tools=list(tools), **options)


async def ask(script: Script, tools: Sequence[Any], **options: Any) -> Any:
    """Run an agent with ``ask``."""
    return await agent_of(script, tools, **options).ask("Go on.")


async def ask_again(script: Script, tools: Sequence[Any], **options: Any) -> Any:
    """Ask once more, after a first answer of the agent."""
    steps, script.steps = script.steps, ()
    reply = await agent_of(script, tools, **options).ask("Hello.")
    script.steps = steps
    return await reply.ask("Go on.")


async def run(script: Script, tools: Sequence[Any], **options: Any) -> Any:
    """Run an agent with ``run``, and await the result in its block."""
    async with agent_of(script, tools, **options).run("Go on.") as going:
        return await going.result()


async def start(script: Script, tools: Sequence[Any], **options: Any) -> Any:
    """Run an agent with ``run`` in the background of its block."""
    async with agent_of(script, tools, **options).run("Go on.") as going:
        going.start()
        return await going.result()


WAYS = (ask, ask_again, run, start)


def driver(go: Any, make_tools: Callable[[Tools], list[Any]] = plain_tools) -> Any:
    """Make a driver that runs this way, with tools made this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        script = Script(steps)
        return transcript_of(lambda: asyncio.run(go(script, make_tools(tools))), script)

    return drive


DRIVERS = {
    **{go.__name__.replace("_", "-"): driver(go) for go in WAYS},
    "ask-async-tools": driver(ask, async_tools),
    "start-async-tools": driver(start, async_tools),
}

MODEL, TOOLS = Script, plain_tools
IN_LOOP = AT_ONCE = WAYS
NESTED = {
    "as_tool": (
        lambda task: Ask("task_helper", {"objective": task}),
        lambda boss, script, tools: asyncio.run(ask(boss, [agent_of(script, tools).as_tool(description="Works.")])),
    )
}


def _converse(script: Script, tools: Sequence[Any], times: int) -> None:
    async def main() -> None:
        reply = await agent_of(script, tools).ask("Go on.")
        for _ in range(times - 1):
            reply = await reply.ask("Go on.")

    asyncio.run(main())


CONVERSATIONS = {"ask": _converse}
