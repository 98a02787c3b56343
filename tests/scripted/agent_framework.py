"""A chat client for Microsoft Agent Framework that follows a script, and a driver for each way of running it."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)

from otel_loopguard.testing import Ask
from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools

_numbers = itertools.count()


class Script(FunctionInvocationLayer, BaseChatClient):  # type: ignore[misc]  # as the framework's own clients
    """Makes the calls of its steps, one step a request, and keeps the requests."""

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        super().__init__(function_invocation_configuration={"max_iterations": 30})
        self.steps = steps
        self.answer = answer
        self.seen: list[list[Any]] = []

    def _inner_get_response(self, *, messages: Sequence[Any], stream: bool, options: Any, **_: Any) -> Any:
        asked = self._next(messages)

        async def respond() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", asked or [self.answer])])

        async def update() -> AsyncIterator[ChatResponseUpdate]:
            for content in asked or [Content.from_text(f"{word} ") for word in self.answer.split()]:
                yield ChatResponseUpdate(contents=[content], role="assistant")

        return ResponseStream(update(), finalizer=ChatResponse.from_updates) if stream else respond()

    def _next(self, messages: Sequence[Any]) -> list[Any]:
        self.seen.append(list(messages))
        step = 0  # counted from the last message of the user: a conversation may have several
        for message in messages:
            step = 0 if message.text and message.role == "user" else step
            step += any(content.type == "function_call" for content in message.contents)
        return [
            Content.from_function_call(
                call_id=f"call-{next(_numbers)}", name=ask.tool, arguments=json.dumps(ask.arguments)
            )
            for ask in next_calls(self.steps, step)
        ]

    @property
    def returned(self) -> list[Any]:
        """The tool results in the last request."""
        last = self.seen[-1] if self.seen else []
        return [content for message in last for content in message.contents if content.type == "function_result"]

    @property
    def read(self) -> list[str]:
        """The text of the tool results in the last request."""
        return [str(result.result) for result in self.returned]


def plain_tools(functions: Tools) -> list[Any]:
    """Make tools of plain functions."""
    return [tool(one, name=name, approval_mode="never_require") for name, one in functions.items()]


def async_tools(functions: Tools) -> list[Any]:
    """Make async tools."""
    return plain_tools({name: _async_tool(function) for name, function in functions.items()})


def _async_tool(function: Callable[..., Any]) -> Callable[..., Any]:
    async def run(path: str) -> str:
        return str(await asyncio.to_thread(function, path))

    return run


def agent_of(script: Script, tools: Sequence[Any] = (), **options: Any) -> Agent:
    """Build an agent that follows this script."""
    return Agent(client=script, tools=list(tools), **{"name": "helper", **options})


async def run(script: Script, tools: Sequence[Any], **options: Any) -> Any:
    """Run an agent with ``run``."""
    return await agent_of(script, tools).run("Go on.", **options)


async def stream(script: Script, tools: Sequence[Any], **options: Any) -> Any:
    """Run an agent with ``run(stream=True)``."""
    return [update async for update in agent_of(script, tools).run("Go on.", stream=True, **options)]


async def final_of_stream(script: Script, tools: Sequence[Any], **options: Any) -> Any:
    """Run an agent with ``run(stream=True)``, and read the final response only."""
    return await agent_of(script, tools).run("Go on.", stream=True, **options).get_final_response()


async def request(script: Script, tools: Sequence[Any]) -> Any:
    """Ask the chat client, without an agent."""
    return await script.get_response([Message("user", ["Go on."])], options={"tools": list(tools)})


async def stream_of_request(script: Script, tools: Sequence[Any]) -> Any:
    """Ask the chat client in a stream, without an agent."""
    answer = script.get_response([Message("user", ["Go on."])], stream=True, options={"tools": list(tools)})
    return [update async for update in answer]


WAYS = (run, stream, final_of_stream, request, stream_of_request)


def driver(go: Any, make_tools: Callable[[Tools], list[Any]] = plain_tools) -> Any:
    """Make a driver that runs this way, with tools made this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        script = Script(steps)
        return transcript_of(lambda: asyncio.run(go(script, make_tools(tools))), script)

    return drive


DRIVERS = {
    **{go.__name__.replace("_", "-"): driver(go) for go in WAYS},
    "run-async-tools": driver(run, async_tools),
    "stream-async-tools": driver(stream, async_tools),
}

READS_FAILURES = False
"""The model reads that a function failed, and not why."""
MODEL, TOOLS = Script, plain_tools
IN_LOOP = (stream,)


def _ask_helper(boss: Script, script: Script, tools: Sequence[Any]) -> None:
    asyncio.run(run(boss, [agent_of(script, tools, description="Works.").as_tool()]))


def _converse(script: Script, tools: Sequence[Any], times: int) -> None:
    async def main() -> None:
        session, agent = AgentSession(), agent_of(script, tools)
        for _ in range(times):
            await agent.run("Go on.", session=session)

    asyncio.run(main())


async def _stream(script: Script, tools: Sequence[Any]) -> AsyncIterator[Any]:
    async for update in agent_of(script, tools).run("Go on.", stream=True):
        yield update


NESTED = {"as_tool": (lambda task: Ask("helper", {"task": task}), _ask_helper)}
CONVERSATIONS = {"run": _converse}
STREAMS = {"run": _stream}
