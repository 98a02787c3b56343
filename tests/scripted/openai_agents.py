"""A scripted model of the OpenAI Agents SDK, and a driver for each way of running an agent with it."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
from typing import TYPE_CHECKING, Any

from agents import Agent, RunConfig, Runner, function_tool
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools

_MOST_TURNS = 1_000
_numbers = itertools.count()
TELLS_UNKNOWN = any(field.name == "tool_not_found_behavior" for field in dataclasses.fields(RunConfig))
"""True if this version can report an unknown tool to its model, instead of ending the run."""


class ScriptedModel(Model):  # type: ignore[misc,unused-ignore]  # the base class is untyped in some versions
    """Makes the calls of its steps, one step a request, and keeps the requests."""

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        self.steps = steps
        self.answer = answer
        self.seen: list[list[Any]] = []

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Answer at once."""
        return ModelResponse(output=self._output(_input(args, kwargs)), usage=Usage(), response_id=None)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Answer in the last event of a stream."""
        response = Response(
            id="response",
            created_at=0,
            model="scripted",
            object="response",
            output=self._output(_input(args, kwargs)),
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)

    def _output(self, given: Any) -> list[Any]:
        self.seen.append([{"role": "user", "content": given}] if isinstance(given, str) else list(given))
        # Counted from the last message of the user: a conversation may have several.
        step, before = 0, ""
        for item in self.seen[-1]:
            kind = "call" if item.get("type") == "function_call" else item.get("role", "result")
            step = 0 if kind == "user" else step + (kind == "call" and before != "call")
            before = kind
        return [
            ResponseFunctionToolCall(
                type="function_call",
                name=ask.tool,
                arguments=_json(ask.arguments),
                call_id=f"call-{next(_numbers)}",
            )
            for ask in next_calls(self.steps, step)
        ] or [text_message(self.answer)]

    @property
    def read(self) -> list[str]:
        """The tool results in the last request, as text."""
        last = self.seen[-1] if self.seen else []
        return [_text(item["output"]) for item in last if item.get("type") == "function_call_output"]


def _json(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _input(args: Any, kwargs: Any) -> Any:
    return args[1] if len(args) > 1 else kwargs["input"]


def _text(output: Any) -> str:
    return output if isinstance(output, str) else " ".join(str(part.get("text", part)) for part in output)


def text_message(text: str) -> ResponseOutputMessage:
    """Make an answer of the model."""
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[content])


def sync_tools(functions: Tools) -> list[Any]:
    """Make plain tools."""
    return [function_tool(function) for function in functions.values()]


def async_tools(functions: Tools) -> list[Any]:
    """Make async tools."""
    return [_async_tool(function) for function in functions.values()]


def _async_tool(function: Callable[..., Any]) -> Any:
    async def run(path: str) -> str:
        await asyncio.sleep(0)
        return str(await asyncio.to_thread(function, path))

    return function_tool(run, name_override=function.__name__)


def config(**more: Any) -> RunConfig:
    """Have unknown tools reported to the model, if this version can do that."""
    if TELLS_UNKNOWN:
        more.setdefault("tool_not_found_behavior", "return_error_to_model")
    return RunConfig(**more)


def run_async(agent: Agent[Any], **options: Any) -> Any:
    """Run the agent with ``Runner.run``."""
    return asyncio.run(Runner.run(agent, "Go on.", max_turns=_MOST_TURNS, **{"run_config": config(), **options}))


def run_sync(agent: Agent[Any], **options: Any) -> Any:
    """Run the agent with ``Runner.run_sync``."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return Runner.run_sync(agent, "Go on.", max_turns=_MOST_TURNS, **{"run_config": config(), **options})
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def run_streamed(agent: Agent[Any], **options: Any) -> Any:
    """Run the agent with ``Runner.run_streamed``."""

    async def stream() -> Any:
        options.setdefault("run_config", config())
        result = Runner.run_streamed(agent, "Go on.", max_turns=_MOST_TURNS, **options)
        async for _ in result.stream_events():
            await asyncio.sleep(0)
        return result

    return asyncio.run(stream())


def driver(go: Callable[[Any], Any], make_tools: Any = sync_tools) -> Any:
    """Make a driver that runs an agent this way, with tools made this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        model = ScriptedModel(steps)
        return transcript_of(lambda: go(Agent(name="helper", model=model, tools=make_tools(tools))), model)

    return drive


DRIVERS = {
    "run": driver(run_async),
    "run-async-tools": driver(run_async, async_tools),
    "run-sync": driver(run_sync),
    "run-streamed": driver(run_streamed),
    "run-streamed-async-tools": driver(run_streamed, async_tools),
}
