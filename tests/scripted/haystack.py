"""A script for Haystack's mock generator, and a driver for each way of running an agent with it."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from typing import TYPE_CHECKING, Any

from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import Tool

from tests.models.toolbox import schema
from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools

_numbers = itertools.count()


class Script:
    """Makes the calls of its steps, one step a request, and keeps the requests."""

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        self.steps = steps
        self.answer = answer
        self.seen: list[list[ChatMessage]] = []

    def model(self) -> MockChatGenerator:
        """Make a generator that follows this script."""
        return MockChatGenerator(response_fn=self._respond)

    def _respond(self, messages: list[ChatMessage]) -> ChatMessage:
        self.seen.append(list(messages))
        step = 0  # counted from the last message of the user
        for message in messages:
            step = 0 if message.is_from("user") else step + bool(message.tool_calls)
        calls = [ToolCall(ask.tool, ask.arguments, id=f"call-{next(_numbers)}") for ask in next_calls(self.steps, step)]
        return ChatMessage.from_assistant(None if calls else self.answer, tool_calls=calls or None)

    @property
    def returned(self) -> list[Any]:
        """The tool results in the last request."""
        return [result for message in self.seen[-1] for result in message.tool_call_results] if self.seen else []

    @property
    def read(self) -> list[str]:
        """The text of the tool results in the last request."""
        return [str(result.result) for result in self.returned]


def plain_tool(function: Callable[..., Any], **options: Any) -> Tool:
    """Make a tool of a function whose arguments are texts."""
    name, text = function.__name__, function.__doc__ or ""
    return Tool(name=name, description=text, parameters=schema(function), function=function, **options)


def async_tool(function: Callable[..., Any], **options: Any) -> Tool:
    """Make an async tool of a function with an argument ``path``."""

    async def run(path: str) -> Any:
        await asyncio.sleep(0)
        result = await asyncio.to_thread(function, path)
        return await result if inspect.isawaitable(result) else result

    name, text = function.__name__, function.__doc__ or ""
    return Tool(name=name, description=text, parameters=schema(function), async_function=run, **options)


def agent_of(script: Script, tools: Sequence[Tool], **options: Any) -> Agent:
    """Build an agent that follows this script."""
    return Agent(chat_generator=script.model(), tools=list(tools), **options)


def asked() -> dict[str, Any]:
    """The input of an agent."""
    return {"messages": [ChatMessage.from_user("Go on.")]}


def run(agent: Agent, **options: Any) -> Any:
    """Run the agent."""
    return agent.run(**asked(), **options)


def run_async(agent: Agent, **options: Any) -> Any:
    """Run the agent in a task."""
    return asyncio.run(agent.run_async(**asked(), **options))


def stream(agent: Agent, **options: Any) -> Any:
    """Stream the replies and results to a callback."""
    return run(agent, streaming_callback=lambda chunk: None, **options)


def pipeline_of(agent: Agent) -> Pipeline:
    """Put the agent into a pipeline."""
    pipeline = Pipeline()
    pipeline.add_component("agent", agent)
    return pipeline


def run_pipeline(agent: Agent, **options: Any) -> Any:
    """Run a pipeline with the agent."""
    return pipeline_of(agent).run({"agent": {**asked(), **options}})["agent"]


def run_pipeline_async(agent: Agent, **options: Any) -> Any:
    """Run a pipeline with the agent in a task."""
    return asyncio.run(pipeline_of(agent).run_async({"agent": {**asked(), **options}}))["agent"]


WAYS = {
    "run": (run, plain_tool),
    "run-async": (run_async, plain_tool),
    "run-async-tools": (run_async, async_tool),
    "stream": (stream, plain_tool),
    "pipeline": (run_pipeline, plain_tool),
    "pipeline-async": (run_pipeline_async, async_tool),
}
"""Each way to run an agent, with what makes a tool."""


def driver(go: Callable[..., Any], make_tool: Callable[..., Any]) -> Any:
    """Make a driver that runs an agent this way, with tools made this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        script = Script(steps)
        return transcript_of(lambda: go(agent_of(script, [make_tool(tool) for tool in tools.values()])), script)

    return drive


DRIVERS = {name: driver(go, make_tool) for name, (go, make_tool) in WAYS.items()}


async def in_loop(script: Script, tools: Sequence[Tool]) -> Any:
    """Run an agent in the event loop of the caller."""
    return await agent_of(script, tools).run_async(**asked())


IN_LOOP = (in_loop,)
MODEL, TOOLS = Script, lambda functions: [async_tool(one) for one in functions.values()]
