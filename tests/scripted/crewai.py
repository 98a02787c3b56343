"""A scripted model of CrewAI, and a driver for each way of running an agent with it."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool

from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.testing import Ask, Transcript
    from tests.scripted import Steps, Tools

_MOST_ITERATIONS = 100
_numbers = itertools.count()


class Script:
    """Makes the calls of its steps, one step a request, and keeps the requests. It writes ReAct text if so asked."""

    def __init__(self, steps: Steps, answer: str = "Done.", *, react: bool = False) -> None:
        self.steps = steps
        self.answer = answer
        self.react = react
        self.seen: list[list[Any]] = []

    def respond(self, messages: Any) -> Any:
        """Make the model's next message."""
        self.seen.append([{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages))
        asked = next_calls(self.steps, len(self.seen) - 1)
        if self.react:
            return self._text(asked)
        return [_native(ask) for ask in asked] or self.answer

    def _text(self, asked: Sequence[Ask]) -> str:
        """One action, as ReAct has it, or the answer."""
        for ask in asked:
            return f"Thought: I need it.\nAction: {ask.tool}\nAction Input: {json.dumps(ask.arguments)}\n"
        return f"Thought: I now can give a great answer\nFinal Answer: {self.answer}"

    @property
    def read(self) -> list[str]:
        """The text of the tool results in the last request."""
        last = self.seen[-1] if self.seen else []
        if not self.react:
            return [str(message["content"]) for message in last if message["role"] == "tool"]
        texts = [str(message["content"]) for message in last if message["role"] == "assistant"]
        results = [text.partition("\nObservation: ")[2] for text in texts if "\nObservation: " in text]
        return [text.partition("\n\n\nYou ONLY have access")[0].strip() for text in results]  # without its reminder


def _native(ask: Ask) -> dict[str, Any]:
    function = {"name": ask.tool, "arguments": json.dumps(ask.arguments)}
    return {"id": f"call-{next(_numbers)}", "type": "function", "function": function}


class ScriptedModel(BaseLLM):  # type: ignore[misc,unused-ignore]  # the base class is untyped
    """The model of a script."""

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        """Answer at once."""
        return self._script.respond(messages)  # type: ignore[attr-defined]

    async def acall(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        """Answer at once."""
        return self._script.respond(messages)  # type: ignore[attr-defined]

    def supports_function_calling(self) -> bool:
        """Return False for a model that writes its calls as text."""
        return not self._script.react  # type: ignore[attr-defined]


def model_of(script: Script) -> Any:
    """Make a model of the framework that follows this script."""
    model = ScriptedModel(model="scripted")
    object.__setattr__(model, "_script", script)
    return model


def agent_of(script: Script, tools: Sequence[Any] = (), **options: Any) -> Any:
    """Build an agent that follows this script."""
    return Agent(
        llm=model_of(script),
        tools=[one if hasattr(one, "args_schema") else tool(one.__name__)(one) for one in tools],
        **{"role": "helper", "goal": "Help.", "backstory": "Helps.", **_OPTIONS, **options},
    )


_OPTIONS = {"cache": False, "max_iter": _MOST_ITERATIONS}


def task_of(agent: Any, **options: Any) -> Any:
    """Make a task of the agent."""
    return Task(description="Go on.", expected_output="An answer.", agent=agent, **options)


def crew_of(agent: Any, **options: Any) -> Any:
    """Make a crew with one task of the agent."""
    return Crew(**{"agents": [agent], "tasks": [task_of(agent)], "cache": False, **options})


def crew(agent: Any) -> Any:
    """Run the agent in a crew."""
    return crew_of(agent).kickoff()


def crew_stream(agent: Any) -> Any:
    """Run the agent in a crew whose chunks are read."""
    chunks = crew_of(agent, stream=True).kickoff()
    list(chunks)
    return chunks.result


def crew_async(agent: Any) -> Any:
    """Run the agent in a crew, in a thread."""
    return asyncio.run(crew_of(agent).kickoff_async())


def crew_native_async(agent: Any) -> Any:
    """Run the agent in a crew, without a thread."""
    return asyncio.run(crew_of(agent).akickoff())


def alone(agent: Any) -> Any:
    """Run the agent without a crew."""
    return agent.kickoff("Go on.")


def alone_async(agent: Any) -> Any:
    """Run the agent without a crew, in asyncio."""
    return asyncio.run(agent.kickoff_async("Go on."))


def driver(go: Callable[[Any], Any], *, react: bool = False, **options: Any) -> Any:
    """Make a driver that runs an agent this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        script = Script(steps, react=react)
        transcript = transcript_of(lambda: go(agent_of(script, list(tools.values()), **options)), script)
        if type(transcript.error).__name__ == "ToolExecutionFailedError":  # its own end of five equal calls
            transcript.ended, transcript.error = str(transcript.error), None
        return transcript

    return drive


WAYS = {
    "crew": crew,
    "crew-stream": crew_stream,
    "crew-async": crew_async,
    "crew-native-async": crew_native_async,
    "agent": alone,
    "agent-async": alone_async,
}
DRIVERS = {name: driver(go) for name, go in WAYS.items()}
MORE_DRIVERS = {f"react-{name}": driver(go, react=True) for name, go in WAYS.items()}


def has_scenario(driver: str, scenario: str) -> bool:
    """Return False for five equal calls, at which CrewAI itself ends a task.

    In text it answers an action that equals the one before, and reads one action a message. So there the scenarios of
    equal calls, one after the other or at once, do not hold.
    """
    if driver.startswith("react"):
        return scenario in {"working", "ping_pong", "unknown_tool"}
    return scenario != "observe"
