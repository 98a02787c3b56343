"""A scripted model of Strands Agents, and a driver for each way of running an agent with it."""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.threading import ThreadingInstrumentor
from strands import Agent, tool
from strands.models import Model
from strands.session import FileSessionManager
from strands.telemetry import get_tracer
from strands.tools.executors import SequentialToolExecutor

from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools

get_tracer()  # its first tracer patches the threads of the whole process
ThreadingInstrumentor().uninstrument()
_numbers = itertools.count()


class ScriptedModel(Model):
    """Makes the calls of its steps, one step a request, and keeps the requests."""

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        self.steps = steps
        self.answer = answer
        self.seen: list[list[Any]] = []

    def update_config(self, **model_config: Any) -> None:
        """Ignore it."""

    def get_config(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    async def structured_output(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield nothing: the agent asks with a tool."""
        for nothing in ():
            yield nothing

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Answer in a few events."""
        self.seen.append([dict(message) for message in messages])
        step = 0  # counted from the last message of the user: a conversation may have several
        for message in messages:
            blocks = message["content"]
            step += any("toolUse" in block for block in blocks)
            if message["role"] == "user" and any("text" in block for block in blocks):
                step = 0
        asked = next_calls(self.steps, step)
        yield {"messageStart": {"role": "assistant"}}
        for ask in asked:
            use = {"name": ask.tool, "toolUseId": f"call-{next(_numbers)}"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(ask.arguments)}}}}
            yield {"contentBlockStop": {}}
        if not asked:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": self.answer}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if asked else "end_turn"}}

    @property
    def returned(self) -> list[Any]:
        """The tool results in the last request."""
        messages = self.seen[-1] if self.seen else []
        blocks = [block for message in messages for block in message["content"]]
        return [block["toolResult"] for block in blocks if "toolResult" in block]

    @property
    def read(self) -> list[str]:
        """The text of the tool results in the last request."""
        return ["\n".join(block.get("text") or str(block) for block in result["content"]) for result in self.returned]


def agent_of(model: ScriptedModel, tools: Sequence[Any] = (), **options: Any) -> Agent:
    """Build an agent that follows this script."""
    return Agent(model=model, tools=list(tools), **{"name": "helper", "callback_handler": None, **options})


def plain_tools(functions: Tools) -> list[Any]:
    """Make plain tools."""
    return [tool(function) for function in functions.values()]


def async_tools(functions: Tools) -> list[Any]:
    """Make async tools."""
    return [tool(_async_function(function)) for function in functions.values()]


def generator_tools(functions: Tools) -> list[Any]:
    """Make tools that yield what they do, and the result last."""
    return [tool(_generator(function)) for function in functions.values()]


def _async_function(function: Callable[..., Any]) -> Any:
    async def run(path: str) -> str:
        await asyncio.sleep(0)
        return str(await asyncio.to_thread(function, path))

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


def _generator(function: Callable[..., Any]) -> Any:
    async def run(path: str) -> Any:
        yield "at work"
        await asyncio.sleep(0)
        yield function(path)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


def run_sync(agent: Any, **options: Any) -> Any:
    """Call the agent."""
    return agent("Go on.", **options)


def run_async(agent: Any, **options: Any) -> Any:
    """Run the agent with ``invoke_async``."""
    return asyncio.run(agent.invoke_async("Go on.", **options))


def run_stream(agent: Any, **options: Any) -> Any:
    """Run the agent with ``stream_async``. Return the events."""

    async def stream() -> Any:
        return [event async for event in agent.stream_async("Go on.", **options)]

    return asyncio.run(stream())


def driver(go: Callable[[Any], Any], make_tools: Any = plain_tools, **options: Any) -> Any:
    """Make a driver that runs an agent this way, with tools made this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        model = ScriptedModel(steps)
        return transcript_of(lambda: go(agent_of(model, make_tools(tools), **options)), model)

    return drive


DRIVERS = {
    "call": driver(run_sync),
    "call-sequential": driver(run_sync, tool_executor=SequentialToolExecutor()),
    "invoke-async": driver(run_async, async_tools),
    "stream-async": driver(run_stream),
    "stream-async-async-tools": driver(run_stream, async_tools),
    "stream-async-generators": driver(run_stream, generator_tools),
}

MODEL, TOOLS = ScriptedModel, plain_tools
IN_LOOP = (lambda model, tools: agent_of(model, tools).invoke_async("Go on."),)


def _converse(go: Callable[[Any], Any]) -> Any:
    def converse(model: ScriptedModel, tools: Sequence[Any], times: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            sessions = FileSessionManager(session_id="session-1", storage_dir=folder)
            agent = agent_of(model, tools, session_manager=sessions)
            for _ in range(times):
                go(agent)

    return converse


CONVERSATIONS = {go.__name__: _converse(go) for go in (run_sync, run_async, run_stream)}
STREAMS = {"stream_async": lambda model, tools: agent_of(model, tools).stream_async("Go on.")}
