"""A script behind OpenAI's client, and a driver for each way of running its tool runner."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import openai
from openai import _base_client
from openai.lib.responses_tool_runner import (
    AsyncRegisteredFunction,
    AsyncResponsesToolRunner,
    RegisteredFunction,
    ResponsesToolRunner,
)

from tests.models.toolbox import schema
from tests.scripted import transcript_of
from tests.scripted.model_server import ServedScript

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools

MOST_STEPS = 100


class Unread(openai.OpenAI):
    """A client whose requests are not read, so that a scenario sees the runner's calls alone."""

    post = _base_client.SyncAPIClient.post
    request = _base_client.SyncAPIClient.request


class AsyncUnread(openai.AsyncOpenAI):
    """The same for async code."""

    post = _base_client.AsyncAPIClient.post
    request = _base_client.AsyncAPIClient.request


class Script(ServedScript):
    """The script of a run."""

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        super().__init__(_base_client.httpx2, steps, answer)

    def client(self, kind: Any = Unread, **options: Any) -> Any:
        """Make a client that this script answers."""
        return super().client(kind, **options)


def declared(function: Callable[..., Any]) -> Any:
    """The definition of a function whose arguments are texts."""
    return {
        "type": "function", "name": function.__name__, "description": inspect.getdoc(function) or "", "strict": True,
        "parameters": schema(function),
    }  # fmt: skip


def plain_tool(function: Callable[..., Any]) -> RegisteredFunction:
    """Register a plain function."""
    return RegisteredFunction(declared(function), lambda given: function(**given))


def async_tool(function: Callable[..., Any]) -> AsyncRegisteredFunction:
    """Register a function as an async one; one that is async stays so."""

    async def run(given: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        result = function(**given)
        return await result if inspect.isawaitable(result) else result

    return AsyncRegisteredFunction(declared(function), run)


def asked(question: str = "task-1: go on.") -> Any:
    """The parameters of a run."""
    return {"model": "gpt-5", "input": [{"role": "user", "content": question}]}


def run(script: Script, tools: Sequence[Any], kind: Any = Unread, **options: Any) -> Any:
    """Run the loop to its end."""
    runner = ResponsesToolRunner(functions=list(tools))
    return runner.run(script.client(kind), asked(), **{"max_steps": MOST_STEPS, **options})


def iterate(script: Script, tools: Sequence[Any], kind: Any = Unread, **options: Any) -> Any:
    """Take each turn of the runner."""
    turns = ResponsesToolRunner(functions=list(tools)).iterate(script.client(kind), asked(), max_steps=MOST_STEPS)
    return [turn.response for turn in turns][-1]


def stream(script: Script, tools: Sequence[Any], kind: Any = Unread, **options: Any) -> Any:
    """Stream each reply."""
    return run(script, tools, kind, stream=True, **options)


def eager(script: Script, tools: Sequence[Any], kind: Any = Unread, **options: Any) -> Any:
    """Run independent functions in threads, while their reply is streamed."""
    independent = [RegisteredFunction(one.tool, one.execute, independent=True) for one in tools]
    return run(script, independent, kind, stream=True, eager=True, **options)


def run_async(script: Script, tools: Sequence[Any], kind: Any = AsyncUnread, **options: Any) -> Any:
    """Run the async loop to its end."""

    async def main() -> Any:
        async with script.client(kind) as client:
            runner = AsyncResponsesToolRunner(functions=list(tools))
            return await runner.run(client, asked(), **{"max_steps": MOST_STEPS, **options})

    return asyncio.run(main())


def stream_async(script: Script, tools: Sequence[Any], kind: Any = AsyncUnread, **options: Any) -> Any:
    """Stream each reply to the async loop."""
    return run_async(script, tools, kind, stream=True, **options)


def eager_async(script: Script, tools: Sequence[Any], kind: Any = AsyncUnread, **options: Any) -> Any:
    """Run independent functions in tasks, while their reply is streamed."""
    independent = [AsyncRegisteredFunction(one.tool, one.execute, independent=True) for one in tools]
    return run_async(script, independent, kind, stream=True, eager=True, **options)


WAYS = {
    "run": (run, plain_tool, openai.OpenAI),
    "iterate": (iterate, plain_tool, openai.OpenAI),
    "stream": (stream, plain_tool, openai.OpenAI),
    "eager": (eager, plain_tool, openai.OpenAI),
    "run-async": (run_async, async_tool, openai.AsyncOpenAI),
    "stream-async": (stream_async, async_tool, openai.AsyncOpenAI),
    "eager-async": (eager_async, async_tool, openai.AsyncOpenAI),
}
"""Each way to run a loop, with what makes a tool, and the client whose requests are read."""


def driver(go: Callable[..., Any], make_tool: Callable[..., Any]) -> Any:
    """Make a driver that runs a loop this way, with tools made this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        script = Script(steps)
        return transcript_of(lambda: go(script, [make_tool(tool) for tool in tools.values()]), script)

    return drive


DRIVERS = {name: driver(go, make_tool) for name, (go, make_tool, _) in WAYS.items()}


def has_scenario(driver: str, scenario: str) -> bool:
    """Return False for a name that does not exist: the first one ends the run, before it can be refused."""
    return scenario != "unknown_tool"


READS_FAILURES = False
"""A function's exception ends the run."""
MODEL, TOOLS = Script, lambda functions: [async_tool(one) for one in functions.values()]


async def in_loop(script: Script, tools: Sequence[Any]) -> Any:
    """Run the async loop in the event loop of the caller."""
    async with script.client(AsyncUnread) as client:
        return await AsyncResponsesToolRunner(functions=list(tools)).run(client, asked(), max_steps=MOST_STEPS)


IN_LOOP = (in_loop,)
