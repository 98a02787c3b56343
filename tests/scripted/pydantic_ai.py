"""A script for Pydantic AI's function model, and a driver for each way of running an agent with it."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from otel_loopguard.testing import Ask, Transcript
    from tests.scripted import Steps, Tools

RETRIES = 20
_numbers = itertools.count()


class Script:
    """Makes the calls of its steps, one step a request, and keeps the requests."""

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        self.steps = steps
        self.answer = answer
        self.seen: list[list[Any]] = []

    def model(self) -> FunctionModel:
        """Make a model of the framework that follows this script."""
        return FunctionModel(self._respond, stream_function=self._stream)

    def _respond(self, messages: list[Any], info: Any) -> ModelResponse:
        asked = self._next(messages)
        if not asked:
            return ModelResponse(parts=[self._answer(info)])
        return ModelResponse(parts=[ToolCallPart(ask.tool, ask.arguments, _call_id()) for ask in asked])

    async def _stream(self, messages: list[Any], _: Any) -> AsyncIterator[Any]:
        asked = self._next(messages)
        if asked:
            yield {
                number: DeltaToolCall(name=ask.tool, json_args=_text(ask.arguments), tool_call_id=_call_id())
                for number, ask in enumerate(asked)
            }
        else:
            for word in self.answer.split(" "):
                yield word

    def _answer(self, info: Any) -> Any:
        if info.output_tools:
            return ToolCallPart(info.output_tools[0].name, {"response": self.answer}, _call_id())
        return TextPart(self.answer)

    def _next(self, messages: list[Any]) -> Sequence[Ask]:
        self.seen.append(list(messages))
        step = 0  # counted from the last message of the user: a conversation may have several
        for message in messages:
            if isinstance(message, ModelResponse):
                step += any(isinstance(part, ToolCallPart) for part in message.parts)
            elif any(isinstance(part, UserPromptPart) for part in message.parts):
                step = 0
        return next_calls(self.steps, step)

    @property
    def returned(self) -> list[Any]:
        """The tool results in the last request."""
        last = self.seen[-1] if self.seen else []
        parts = [part for message in last for part in message.parts if not isinstance(message, ModelResponse)]
        return [part for part in parts if _is_result(part)]

    @property
    def read(self) -> list[str]:
        """The text of the tool results in the last request."""
        return [
            part.model_response_str() if hasattr(part, "model_response_str") else part.model_response()
            for part in self.returned
        ]


def _is_result(part: Any) -> bool:
    """True for the return of a tool, or in older versions the prompt to try it again."""
    retried = getattr(part, "tool_name", None) is not None and hasattr(part, "model_response")
    return retried or hasattr(part, "model_response_str")


def _call_id() -> str:
    return f"call-{next(_numbers)}"


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def agent_of(script: Script, tools: Sequence[Any] = (), **options: Any) -> Agent[Any, Any]:
    """Build an agent that follows this script."""
    return Agent(script.model(), tools=list(tools), **{"name": "helper", "retries": RETRIES, **options})


def plain_tools(functions: Tools) -> dict[str, Any]:
    """Make plain tools."""
    return {"tools": list(functions.values())}


def async_tools(functions: Tools) -> dict[str, Any]:
    """Make async tools."""
    return {"tools": [_async_tool(function) for function in functions.values()]}


def _async_tool(function: Callable[..., Any]) -> Any:
    async def run(path: str) -> str:
        await asyncio.sleep(0)
        return str(await asyncio.to_thread(function, path))

    return Tool(run, name=function.__name__)


def toolsets(functions: Tools) -> dict[str, Any]:
    """Nest the tools, as toolsets of servers and plugins are."""
    inner = FunctionToolset(list(functions.values()))
    return {"toolsets": [inner.filtered(lambda *_: True)]}


def run_async(agent: Agent[Any, Any], **options: Any) -> Any:
    """Run the agent with ``run``."""
    return asyncio.run(agent.run("Go on.", **options))


def run_sync(agent: Agent[Any, Any], **options: Any) -> Any:
    """Run the agent with ``run_sync``."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return agent.run_sync("Go on.", **options)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def run_stream(agent: Agent[Any, Any], **options: Any) -> Any:
    """Run the agent with ``run_stream``."""

    async def stream() -> Any:
        async with agent.run_stream("Go on.", **options) as result:
            return await result.get_output()

    return asyncio.run(stream())


def iterate(agent: Agent[Any, Any], **options: Any) -> Any:
    """Run the agent with ``iter``."""

    async def nodes() -> Any:
        async with agent.iter("Go on.", **options) as going:
            async for _ in going:
                await asyncio.sleep(0)
        return going.result

    return asyncio.run(nodes())


def driver(go: Callable[[Any], Any], make_tools: Any = plain_tools, **options: Any) -> Any:
    """Make a driver that runs an agent this way, with tools made this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        script = Script(steps)
        return transcript_of(lambda: go(agent_of(script, **make_tools(tools), **options)), script)

    return drive


DRIVERS = {
    "run": driver(run_async),
    "run-async-tools": driver(run_async, async_tools),
    "run-toolsets": driver(run_async, toolsets),
    "run-sync": driver(run_sync),
    "run-stream": driver(run_stream),
    "run-stream-async-tools": driver(run_stream, async_tools),
    "iter": driver(iterate),
}
