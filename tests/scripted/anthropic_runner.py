"""A script behind Anthropic's client, and a driver for each way of running its tool runner."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import anthropic
from anthropic import _base_client, beta_async_tool, beta_tool

from tests.scripted import transcript_of
from tests.scripted.model_server import ServedScript

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools


class Unread(anthropic.Anthropic):
    """A client whose requests are not read, so that a scenario sees the runner's calls alone."""

    post = _base_client.SyncAPIClient.post
    request = _base_client.SyncAPIClient.request


class AsyncUnread(anthropic.AsyncAnthropic):
    """The same for async code."""

    post = _base_client.AsyncAPIClient.post
    request = _base_client.AsyncAPIClient.request


class Script(ServedScript):
    """The script of a run."""

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        super().__init__(getattr(_base_client, "httpx2", None) or _base_client.httpx, steps, answer)

    def client(self, kind: Any = Unread, **options: Any) -> Any:
        """Make a client that this script answers."""
        return super().client(kind, **options)


def runner_of(client: Any, tools: Sequence[Any], *, question: str = "task-1: go on.", **options: Any) -> Any:
    """Build a runner. The async client returns one, too, without ``await``."""
    return client.beta.messages.tool_runner(
        model="claude-opus-4-1", max_tokens=1_000, tools=list(tools),
        messages=[{"role": "user", "content": question}], **options,
    )  # fmt: skip


def plain_tools(functions: Tools) -> list[Any]:
    """Make plain tools."""
    return [beta_tool(function) for function in functions.values()]


def async_tools(functions: Tools) -> list[Any]:
    """Make async tools."""
    return [async_tool(function) for function in functions.values()]


def async_tool(function: Callable[..., Any]) -> Any:
    """Make an async tool of a function with an argument ``path``."""

    async def run(path: str) -> str:
        await asyncio.sleep(0)
        result = function(path)
        return str(await result if inspect.isawaitable(result) else result)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return beta_async_tool(run)


def until_done(script: Script, tools: Sequence[Any], kind: Any = Unread, **options: Any) -> Any:
    """Run the loop to its end."""
    return runner_of(script.client(kind), tools, **options).until_done()


def iterate(script: Script, tools: Sequence[Any], kind: Any = Unread, **options: Any) -> Any:
    """Take each message of the loop."""
    return [*runner_of(script.client(kind), tools, **options)][-1]


def by_hand(script: Script, tools: Sequence[Any], kind: Any = Unread, **options: Any) -> Any:
    """Let the runner run the tools of each message before it would do so itself."""
    runner, last = runner_of(script.client(kind), tools, **options), None
    while (message := next(runner, None)) is not None:
        last = message
        runner.generate_tool_call_response()
    return last


def stream(script: Script, tools: Sequence[Any], kind: Any = Unread, **options: Any) -> Any:
    """Read each message of the loop as it is streamed."""
    message = None
    for streamed in runner_of(script.client(kind), tools, stream=True, **options):
        for _ in streamed:
            pass
        message = streamed.get_final_message()
    return message


def until_done_async(script: Script, tools: Sequence[Any], kind: Any = AsyncUnread, **options: Any) -> Any:
    """Run the loop of the async client to its end."""

    async def main() -> Any:
        async with script.client(kind) as client:
            return await runner_of(client, tools, **options).until_done()

    return asyncio.run(main())


def by_hand_async(script: Script, tools: Sequence[Any], kind: Any = AsyncUnread, **options: Any) -> Any:
    """Let the async runner run the tools of each message before it would do so itself."""

    async def main() -> Any:
        async with script.client(kind) as client:
            runner, last = runner_of(client, tools, **options), None
            async for message in runner:
                last = message
                await runner.generate_tool_call_response()
            return last

    return asyncio.run(main())


def stream_async(script: Script, tools: Sequence[Any], kind: Any = AsyncUnread, **options: Any) -> Any:
    """Read each message of the async loop as it is streamed."""

    async def main() -> Any:
        message = None
        async with script.client(kind) as client:
            async for streamed in runner_of(client, tools, stream=True, **options):
                async for _ in streamed:
                    pass
                message = await streamed.get_final_message()
        return message

    return asyncio.run(main())


WAYS = {
    "until-done": (until_done, plain_tools, anthropic.Anthropic),
    "iterate": (iterate, plain_tools, anthropic.Anthropic),
    "by-hand": (by_hand, plain_tools, anthropic.Anthropic),
    "stream": (stream, plain_tools, anthropic.Anthropic),
    "until-done-async": (until_done_async, async_tools, anthropic.AsyncAnthropic),
    "by-hand-async": (by_hand_async, async_tools, anthropic.AsyncAnthropic),
    "stream-async": (stream_async, async_tools, anthropic.AsyncAnthropic),
}
"""Each way to run a loop, with what makes its tools, and the client whose requests are read."""


def driver(go: Callable[..., Any], make_tools: Callable[[Tools], list[Any]]) -> Any:
    """Make a driver that runs a loop this way, with tools made this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        script = Script(steps)
        return transcript_of(lambda: go(script, make_tools(tools)), script)

    return drive


DRIVERS = {name: driver(go, make_tools) for name, (go, make_tools, _) in WAYS.items()}


async def in_loop(script: Script, tools: Sequence[Any]) -> Any:
    """Run the async loop in the event loop of the caller."""
    async with script.client(AsyncUnread) as client:
        return await runner_of(client, tools).until_done()


MODEL, TOOLS, IN_LOOP = Script, async_tools, (in_loop,)
