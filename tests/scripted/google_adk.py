"""A scripted model of Google's Agent Development Kit, and a driver for each way of running an agent with it."""

from __future__ import annotations

import asyncio
import itertools
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from google.adk.agents import LlmAgent, LoopAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool
from google.genai import types

from otel_loopguard.testing import Ask
from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools

# Older versions write arguments on the span that is current, whoever made it, where the program has no tracer provider.
os.environ["ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"] = "false"
_numbers = itertools.count()
APP = "scripted"
USER = "user"
TELLS_UNKNOWN = any(find_spec(f"google.adk.flows.llm_flows.{name}") for name in ("tools", "_tool_caller"))
"""True if this version reports an unknown tool to its model, instead of ending the run."""


class ScriptedModel(BaseLlm):
    """Makes the calls of its steps, one step a request, and keeps the requests."""

    model: str = "scripted"
    steps: Any = ()
    answer: str = "Done."
    seen: list[Any] = []  # each model gets a copy

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        super().__init__(steps=steps, answer=answer)

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[LlmResponse]:
        """Answer at once, or first with a part of the answer."""
        self.seen.append(list(llm_request.contents))
        step = 0  # counted from the last message of the user: a conversation may have several
        for content in llm_request.contents:
            parts = content.parts or ()
            step += content.role == "model" and any(part.function_call for part in parts)
            if content.role == "user" and any(part.text for part in parts):
                step = 0
        asked = next_calls(self.steps, step)
        parts = [
            types.Part(function_call=types.FunctionCall(id=f"call-{next(_numbers)}", name=ask.tool, args=ask.arguments))
            for ask in asked
        ]
        if not parts and stream:
            yield LlmResponse(content=_content([types.Part(text=self.answer)]), partial=True)
        yield LlmResponse(content=_content(parts or [types.Part(text=self.answer)]))

    @property
    def returned(self) -> list[Any]:
        """The responses of functions in the last request."""
        contents = self.seen[-1] if self.seen else []
        parts = [part for content in contents for part in content.parts or ()]
        return [part.function_response for part in parts if part.function_response]

    @property
    def read(self) -> list[str]:
        """The text of the responses of functions in the last request."""
        return [_text(one.response) for one in self.returned]


def _content(parts: list[Any]) -> types.Content:
    return types.Content(role="model", parts=parts)


def _text(response: Any) -> str:
    return str(next(iter(response.values()))) if len(response) == 1 else str(response)


def agent_of(model: ScriptedModel, tools: Sequence[Any] = (), **options: Any) -> LlmAgent:
    """Build an agent that follows this script."""
    return LlmAgent(model=model, tools=list(tools), **{"name": "helper", **options})


def workflow_of(model: ScriptedModel, tools: Sequence[Any] = ()) -> LoopAgent:
    """Build a workflow around such an agent."""
    return LoopAgent(name="workflow", sub_agents=[agent_of(model, tools)], max_iterations=1)


def plain_tools(functions: Tools) -> list[Any]:
    """Make plain tools."""
    return list(functions.values())


def async_tools(functions: Tools) -> list[Any]:
    """Make async tools."""
    return [_async_tool(function) for function in functions.values()]


def _async_tool(function: Callable[..., Any]) -> Any:
    async def run(path: str) -> str:
        await asyncio.sleep(0)
        return str(await asyncio.to_thread(function, path))

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


def message(*parts: Any) -> types.Content:
    """Make a message of the user."""
    return types.Content(role="user", parts=list(parts) or [types.Part(text="Go on.")])


def runner_of(agent: Any, session_id: str = "session-1", user_id: str = USER) -> InMemoryRunner:
    """Make a runner with a session."""
    runner = InMemoryRunner(agent, app_name=APP)
    runner.session_service.create_session_sync(app_name=APP, user_id=user_id, session_id=session_id)
    return runner


def arguments(session_id: str = "session-1", new_message: Any = None, **options: Any) -> dict[str, Any]:
    """Return the arguments of a run."""
    return {"user_id": USER, "session_id": session_id, "new_message": new_message or message(), **options}


def run_async(agent: Any, **options: Any) -> Any:
    """Run the agent with ``run_async``. Return the events."""
    runner = runner_of(agent)

    async def run() -> Any:
        return [event async for event in runner.run_async(**arguments(**options))]

    return asyncio.run(run())


def run_stream(agent: Any, **options: Any) -> Any:
    """Run the agent with ``run_async``, with a model that streams."""
    from google.adk.agents.run_config import RunConfig, StreamingMode

    return run_async(agent, run_config=RunConfig(streaming_mode=StreamingMode.SSE), **options)


def run_sync(agent: Any, **options: Any) -> Any:
    """Run the agent with ``run``, which has a thread of its own."""
    return list(runner_of(agent).run(**arguments(**options)))


def driver(go: Callable[[Any], Any], make_tools: Any = plain_tools, make_agent: Any = agent_of) -> Any:
    """Make a driver that runs an agent this way, with tools made this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        model = ScriptedModel(steps)
        return transcript_of(lambda: go(make_agent(model, make_tools(tools))), model)

    return drive


DRIVERS = {
    "run-async": driver(run_async),
    "run-async-async-tools": driver(run_async, async_tools),
    "run-async-stream": driver(run_stream, async_tools),
    "run": driver(run_sync),
    "workflow": driver(run_async, make_agent=workflow_of),
}


def has_scenario(driver: str, scenario: str) -> bool:
    """Return False before 2.0 for the first name that does not exist, which ends the run."""
    return TELLS_UNKNOWN or scenario != "unknown_tool"


READS_FAILURES = False
"""A tool's exception ends the run."""
MODEL, TOOLS = ScriptedModel, plain_tools
_WAYS = (run_async, run_stream, run_sync)


def _stream(model: ScriptedModel, tools: Sequence[Any]) -> Any:
    return runner_of(agent_of(model, tools)).run_async(**arguments())


async def in_loop(model: ScriptedModel, tools: Sequence[Any]) -> Any:
    """Run an agent in the event loop of the caller."""
    return [event async for event in _stream(model, tools)]


def _asks(go: Callable[[Any], Any], kind: str) -> Any:
    """Let an agent ask another one that is a tool, or a sub-agent that answers once."""

    def nested(boss: ScriptedModel, model: ScriptedModel, tools: Sequence[Any]) -> None:
        helper = agent_of(model, tools, **({} if kind == "tool" else {"mode": kind}))
        has = {"tools": [AgentTool(helper)]} if kind == "tool" else {"sub_agents": [helper]}
        go(LlmAgent(name="boss", model=boss, **has))

    return (lambda task: Ask("helper", {"request": task})), nested


def _converse(go: Callable[..., Any]) -> Any:
    return lambda model, tools, times: [go(agent_of(model, tools), session_id="session-1") for _ in range(times)]


_KINDS = ("tool", "single_turn") if "mode" in LlmAgent.model_fields else ("tool",)
IN_LOOP = (in_loop,)
NESTED = {f"{kind}-{go.__name__}": _asks(go, kind) for kind in _KINDS for go in _WAYS}
CONVERSATIONS = {go.__name__: _converse(go) for go in _WAYS}
STREAMS = {"run_async": _stream}
