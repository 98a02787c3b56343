"""A model client for AutoGen that follows a script, and a driver for each way of running an assistant with it."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.tools import AgentTool
from autogen_core import FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    ModelFamily,
    ModelInfo,
    RequestUsage,
    UserMessage,
)
from autogen_core.tools import FunctionTool

from otel_loopguard.testing import Ask
from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools

_USAGE = RequestUsage(prompt_tokens=0, completion_tokens=0)
_numbers = itertools.count()


class Script(ChatCompletionClient):
    """Makes the calls of its steps, one step a request, and keeps the requests."""

    component_type = "model"
    component_provider_override = component_config_schema = None  # type: ignore[assignment]  # it is in no file

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        self.steps = steps
        self.answer = answer
        self.seen: list[list[Any]] = []

    async def create(self, messages: Sequence[Any], **_: Any) -> CreateResult:
        """Make the calls of the next step, or answer."""
        self.seen.append(list(messages))
        step = 0  # counted from the last message of the user: a conversation may have several
        for message in messages:
            step = 0 if isinstance(message, UserMessage) else step
            step += isinstance(message, FunctionExecutionResultMessage)
        calls = [
            FunctionCall(id=f"call-{next(_numbers)}", name=ask.tool, arguments=json.dumps(ask.arguments))
            for ask in next_calls(self.steps, step)
        ]
        reason = "function_calls" if calls else "stop"
        return CreateResult(finish_reason=reason, content=calls or self.answer, usage=_USAGE, cached=False)

    async def create_stream(self, messages: Sequence[Any], **options: Any) -> AsyncIterator[Any]:
        """Do the same in a stream."""
        result = await self.create(messages, **options)
        if isinstance(result.content, str):
            for word in result.content.split():
                yield word
        yield result

    async def close(self) -> None:
        """Close nothing."""

    def actual_usage(self) -> RequestUsage:
        """Return no usage."""
        return _USAGE

    total_usage = actual_usage

    def count_tokens(self, messages: Any, **_: Any) -> int:
        """Count none."""
        return 0

    remaining_tokens = count_tokens

    @property
    def capabilities(self) -> Any:
        """The old name of ``model_info``."""
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        """A model that calls functions."""
        return ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            family=ModelFamily.UNKNOWN,
            structured_output=False,
        )

    @property
    def returned(self) -> list[Any]:
        """The tool results in the last request."""
        last = self.seen[-1] if self.seen else []
        return [result for one in last if isinstance(one, FunctionExecutionResultMessage) for result in one.content]

    @property
    def read(self) -> list[str]:
        """The text of the tool results in the last request."""
        return [result.content for result in self.returned]


def plain_tools(functions: Tools) -> list[Any]:
    """Make plain tools, which run in a thread."""
    return [FunctionTool(function, "Do it.", name=name) for name, function in functions.items()]


def async_tools(functions: Tools) -> list[Any]:
    """Make async tools."""
    return plain_tools({name: _async_tool(function) for name, function in functions.items()})


def _async_tool(function: Callable[..., Any]) -> Callable[..., Any]:
    async def run(path: str) -> str:
        return str(await asyncio.to_thread(function, path))

    return run


def agent_of(script: Script, tools: Sequence[Any] = (), **options: Any) -> AssistantAgent:
    """Build an assistant that follows this script."""
    settings = {"name": "helper", "max_tool_iterations": 30, "reflect_on_tool_use": False, **options}
    return AssistantAgent(model_client=script, tools=list(tools), **settings)


def team_of(*agents: Any, messages: int = 3) -> RoundRobinGroupChat:
    """Build a team that ends after so many messages."""
    return RoundRobinGroupChat(list(agents), termination_condition=MaxMessageTermination(messages))


async def run(script: Script, tools: Sequence[Any]) -> Any:
    """Run an assistant with ``run``."""
    return await agent_of(script, tools).run(task="Go on.")


async def run_stream(script: Script, tools: Sequence[Any]) -> Any:
    """Run an assistant with ``run_stream``, and a model that streams."""
    stream = agent_of(script, tools, model_client_stream=True).run_stream(task="Go on.")
    return [event async for event in stream]


async def run_team(script: Script, tools: Sequence[Any]) -> Any:
    """Run a team with ``run``."""
    return await team_of(agent_of(script, tools), messages=2).run(task="Go on.")


async def run_team_stream(script: Script, tools: Sequence[Any]) -> Any:
    """Run a team with ``run_stream``."""
    return [event async for event in team_of(agent_of(script, tools), messages=2).run_stream(task="Go on.")]


WAYS = (run, run_stream, run_team, run_team_stream)


def driver(go: Any, make_tools: Callable[[Tools], list[Any]] = plain_tools) -> Any:
    """Make a driver that runs this way, with tools made this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        script = Script(steps)
        return transcript_of(lambda: asyncio.run(go(script, make_tools(tools))), script)

    return drive


DRIVERS = {
    **{go.__name__.replace("_", "-"): driver(go) for go in WAYS},
    "run-async-tools": driver(run, async_tools),
    "run-team-async-tools": driver(run_team, async_tools),
}

MODEL, TOOLS = Script, plain_tools
IN_LOOP = (run_stream,)
AT_ONCE = WAYS


def _asks(go: Any, make_tool: Any) -> Any:
    def nested(boss: Script, script: Script, tools: Sequence[Any]) -> None:
        asyncio.run(go(boss, [make_tool(agent_of(script, tools, description="Works."))]))

    return (lambda task: Ask("helper", {"task": task})), nested


def _agent_tool(agent: Any) -> Any:
    return AgentTool(agent, return_value_as_last_message=True)


def _converse(script: Script, tools: Sequence[Any], times: int) -> None:
    async def main() -> None:
        agent = agent_of(script, tools)
        for _ in range(times):
            await agent.run(task="Go on.")

    asyncio.run(main())


NESTED = {"agent": _asks(run, _agent_tool), "agent-stream": _asks(run_stream, _agent_tool)}
CONVERSATIONS = {"run": _converse}
STREAMS = {
    "agent": lambda script, tools: agent_of(script, tools).run_stream(task="Go on."),
    "team": lambda script, tools: team_of(agent_of(script, tools), messages=2).run_stream(task="Go on."),
}
