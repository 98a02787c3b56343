"""A scripted model of Agno, and a driver for each way of running an agent or a team with it."""

from __future__ import annotations

import asyncio
import itertools
import json
from inspect import signature
from typing import TYPE_CHECKING, Any

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.team import Team
from agno.tools import Function

from otel_loopguard.testing import Ask
from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools

_numbers = itertools.count()


class ScriptedModel(Model):
    """Makes the calls of its steps, one step a request, and keeps the requests."""

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        super().__init__(id="scripted", name="scripted", provider="scripted")
        self.steps = steps
        self.answer = answer
        self.seen: list[list[Any]] = []

    def __deepcopy__(self, memo: Any) -> ScriptedModel:
        """Stay one model: a session copies its agent."""
        return self

    def invoke(self, messages: list[Any], *args: Any, **kwargs: Any) -> ModelResponse:
        """Answer at once."""
        self.seen.append(list(messages))
        step = 0  # counted from the last message of the user: a conversation may have several
        for message in messages:
            step = 0 if message.role == "user" else step + bool(message.tool_calls)
        asked = next_calls(self.steps, step)
        calls = [
            {
                "id": f"call-{next(_numbers)}",
                "type": "function",
                "function": {"name": ask.tool, "arguments": json.dumps(ask.arguments)},
            }
            for ask in asked
        ]
        return ModelResponse(role="assistant", content=None if calls else self.answer, tool_calls=calls)

    async def ainvoke(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Answer at once."""
        return self.invoke(*args, **kwargs)

    def invoke_stream(self, *args: Any, **kwargs: Any) -> Iterator[ModelResponse]:
        """Answer in one piece of a stream."""
        yield self.invoke(*args, **kwargs)

    async def ainvoke_stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ModelResponse]:
        """Answer in one piece of a stream."""
        yield self.invoke(*args, **kwargs)

    def _parse_provider_response(self, response: Any, **kwargs: Any) -> Any:
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:
        return response

    @property
    def returned(self) -> list[Any]:
        """The tool messages in the last request."""
        last = self.seen[-1] if self.seen else []
        return [message for message in last if message.role == "tool"]

    @property
    def read(self) -> list[str]:
        """The text of the tool messages in the last request."""
        return [str(message.content) for message in self.returned]


def agent_of(model: ScriptedModel, tools: Sequence[Any] = (), **options: Any) -> Agent:
    """Build an agent that follows this script."""
    return Agent(model=model, tools=list(tools), **{"name": "helper", "telemetry": False, **options})


def team_of(model: ScriptedModel, tools: Sequence[Any] = (), members: Sequence[Any] = (), **options: Any) -> Team:
    """Build a team whose leader follows this script."""
    return Team(list(members), model=model, tools=list(tools), **{"name": "boss", "telemetry": False, **options})


def plain_tools(functions: Tools) -> list[Any]:
    """Make plain tools."""
    return list(functions.values())


def async_tools(functions: Tools) -> list[Any]:
    """Make async tools."""
    return [_tool(function, _async_function(function)) for function in functions.values()]


def generator_tools(functions: Tools) -> list[Any]:
    """Make tools that are generators: their items are one result."""
    return [_tool(function, _generator(function)) for function in functions.values()]


def async_generator_tools(functions: Tools) -> list[Any]:
    """Make tools that are async generators."""
    return [_tool(function, _async_generator(function)) for function in functions.values()]


def _tool(function: Callable[..., Any], run: Any) -> Function:
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return Function.from_callable(run)


def _async_function(function: Callable[..., Any]) -> Any:
    async def run(path: str) -> str:
        await asyncio.sleep(0)
        return str(await asyncio.to_thread(function, path))

    return run


def _generator(function: Callable[..., Any]) -> Any:
    def run(path: str) -> Any:
        yield from function(path).partition(" ")

    return run


def _async_generator(function: Callable[..., Any]) -> Any:
    async def run(path: str) -> Any:
        for word in function(path).partition(" "):
            await asyncio.sleep(0)
            yield word

    return run


def run_sync(agent: Any, **options: Any) -> Any:
    """Run the agent with ``run``."""
    return agent.run("Go on.", **options)


def run_stream(agent: Any, **options: Any) -> Any:
    """Run the agent with ``run``, streamed. Return the events."""
    return list(agent.run("Go on.", stream=True, **options))


def run_async(agent: Any, **options: Any) -> Any:
    """Run the agent with ``arun``."""
    return asyncio.run(agent.arun("Go on.", **options))


def run_async_stream(agent: Any, **options: Any) -> Any:
    """Run the agent with ``arun``, streamed. Return the events."""

    async def stream() -> Any:
        return [event async for event in agent.arun("Go on.", stream=True, **options)]

    return asyncio.run(stream())


def driver(go: Callable[[Any], Any], make_tools: Any = plain_tools, make_agent: Any = agent_of) -> Any:
    """Make a driver that runs an agent this way, with tools made this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        model = ScriptedModel(steps)
        return transcript_of(lambda: go(make_agent(model, make_tools(tools))), model)

    return drive


DRIVERS = {
    "run": driver(run_sync),
    "run-generators": driver(run_sync, generator_tools),
    "stream": driver(run_stream),
    "arun": driver(run_async),
    "arun-async-tools": driver(run_async, async_tools),
    "arun-generators": driver(run_async, generator_tools),
    "arun-async-generators": driver(run_async, async_generator_tools),
    "arun-stream-async-tools": driver(run_async_stream, async_tools),
    "team": driver(run_sync, make_agent=team_of),
    "team-stream": driver(run_stream, make_agent=team_of),
    "team-arun": driver(run_async, async_tools, team_of),
    "team-arun-stream": driver(run_async_stream, make_agent=team_of),
}

MODEL, TOOLS = ScriptedModel, plain_tools
IN_LOOP = (lambda model, tools: agent_of(model, tools).arun("Go on."),)
_WAYS = (run_sync, run_stream, run_async, run_async_stream)
_TO_ALL = {"delegate_to_all_members", "delegate_task_to_all_members"} & {*signature(Team.__init__).parameters}


def _asks(go: Callable[..., Any], *, all_members: bool) -> Any:
    def nested(boss: ScriptedModel, model: ScriptedModel, tools: Sequence[Any]) -> None:
        options = dict.fromkeys(_TO_ALL, True) if all_members else {}
        go(team_of(boss, members=[agent_of(model, tools)], **options))

    if all_members:
        return (lambda task: Ask("delegate_task_to_members", {"task": task})), nested
    return (lambda task: Ask("delegate_task_to_member", {"member_id": "helper", "task": task})), nested


def _converse(go: Callable[..., Any]) -> Any:
    return lambda model, tools, times: [go(agent_of(model, tools), session_id="session-1") for _ in range(times)]


def _member_stream(model: ScriptedModel, tools: Sequence[Any]) -> Any:
    boss = ScriptedModel([[Ask("delegate_task_to_member", {"member_id": "helper", "task": "a task"})]])
    return _stream(team_of(boss, members=[agent_of(model, tools)]))


def _stream(agent: Any) -> Any:
    return agent.run("Go on.", stream=True, stream_events=True)


NESTED = {f"member-{go.__name__}": _asks(go, all_members=False) for go in _WAYS}
GROUPS = {f"members-{go.__name__}": _asks(go, all_members=True) for go in _WAYS}
CONVERSATIONS = {go.__name__: _converse(go) for go in _WAYS}
STREAMS = {"agent": lambda model, tools: _stream(agent_of(model, tools)), "member": _member_stream}
