"""A script for DSPy's dummy model, and a driver for each way of running its agents with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import dspy
from dspy.utils.dummies import DummyLM

from tests.scripted import transcript_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools

MOST_STEPS = 100


class Model(DummyLM):
    """Suspends before an async answer, as a model that is asked over a network does.

    In the meantime the reader of a stream takes the status messages. DSPy 3.0 sends them from the event loop and waits:
    with a model that never suspends the 17th waits for ever, with or without the guard.
    """

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """Answer after a pause."""
        await asyncio.sleep(0.001)
        return await super().acall(*args, **kwargs)


class Script:
    """Makes the calls of its steps, and keeps the prediction, which has the observations that the model reads."""

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        self.steps = steps
        self.answer = answer
        self.prediction: Any = None

    def model(self, *, v2: bool = False) -> Model:
        """Make a model that follows this script. A ``ReAct`` makes one call at a time."""
        if v2:
            messages = [[{"name": ask.tool, "args": ask.arguments} for ask in step] for step in self.steps]
            messages.append([{"name": "submit", "args": {"answer": self.answer}}])
            return Model([{"next_thought": "Go on.", "tool_calls": {"tool_calls": calls}} for calls in messages])
        calls = [(ask.tool, ask.arguments) for step in self.steps for ask in step]
        thoughts: list[dict[str, Any]] = [
            {"next_thought": "Go on.", "next_tool_name": name, "next_tool_args": arguments}
            for name, arguments in [*calls, ("finish", {})]
        ]
        return Model([*thoughts, {"reasoning": "It is so.", "answer": self.answer}])

    @property
    def read(self) -> list[str]:
        """The observations of the run, without that of its last call."""
        if self.prediction is None:
            return []
        if hasattr(self.prediction, "trajectory"):
            seen = self.prediction.trajectory
            return [str(seen[name]) for name in seen if name.startswith("observation_")][:-1]
        events = self.prediction.history.messages[:-1]
        return [str(one.value) for event in events for one in event["tool_calls"].tool_call_results.tool_call_results]


def run(script: Script, tools: Sequence[Any], *, v2: bool = False) -> Any:
    """Run an agent, and keep its prediction."""
    kind = dspy.ReActV2 if v2 else dspy.ReAct
    with dspy.context(lm=script.model(v2=v2)):
        script.prediction = kind("question -> answer", tools=list(tools), max_iters=MOST_STEPS)(question="Go on.")
    return script.prediction


def run_async(script: Script, tools: Sequence[Any], *, v2: bool = False) -> Any:
    """Run an agent in a task, and keep its prediction."""
    kind = dspy.ReActV2 if v2 else dspy.ReAct
    agent = kind("question -> answer", tools=list(tools), max_iters=MOST_STEPS)

    async def main() -> Any:
        with dspy.context(lm=script.model(v2=v2)):
            script.prediction = await agent.acall(question="Go on.")
        return script.prediction

    return asyncio.run(main())


def stream(script: Script, tools: Sequence[Any]) -> Any:
    """Stream the status of an agent, which runs in a task."""
    program = dspy.ReAct("question -> answer", tools=list(tools), max_iters=MOST_STEPS)
    agent = dspy.streamify(program, is_async_program=True)

    async def main() -> Any:
        with dspy.context(lm=script.model()):
            async for item in agent(question="Go on."):
                if isinstance(item, dspy.Prediction):
                    script.prediction = item
        return script.prediction

    try:
        return asyncio.run(main())
    except Exception as error:
        while hasattr(error, "exceptions"):  # until 3.3 any error of a stream is in a group
            (error,) = error.exceptions
        raise error from None


def run_v2(script: Script, tools: Sequence[Any]) -> Any:
    """Run a ``ReActV2``."""
    return run(script, tools, v2=True)


def run_v2_async(script: Script, tools: Sequence[Any]) -> Any:
    """Run a ``ReActV2`` in a task."""
    return run_async(script, tools, v2=True)


def plain_tool(function: Callable[..., Any]) -> Any:
    """Make a plain tool."""
    return dspy.Tool(function)


def async_tool(function: Callable[..., Any]) -> Any:
    """Make an async tool of a function with an argument ``path``."""

    async def call(path: str) -> Any:
        await asyncio.sleep(0)
        return function(path)

    call.__annotations__["path"] = str
    return dspy.Tool(call, name=function.__name__, desc=function.__doc__)


WAYS = {
    "run": (run, plain_tool),
    "run-async": (run_async, plain_tool),
    "run-async-tools": (run_async, async_tool),
    "stream": (stream, plain_tool),
}
"""Each way to run an agent that makes one call at a time, with what makes a tool."""
WAYS_V2 = {"v2": (run_v2, plain_tool), "v2-async": (run_v2_async, async_tool)} if hasattr(dspy, "ReActV2") else {}
"""Each way to run an agent that may make several calls at once; older versions have none."""


def driver(go: Callable[..., Any], make_tool: Callable[..., Any]) -> Any:
    """Make a driver that runs an agent this way, with tools made this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        script = Script(steps)
        return transcript_of(lambda: go(script, [make_tool(tool) for tool in tools.values()]), script)

    return drive


DRIVERS = {name: driver(go, make_tool) for name, (go, make_tool) in {**WAYS, **WAYS_V2}.items()}


def has_scenario(driver: str, scenario: str) -> bool:
    """Return False for what ``ReAct`` cannot have: several calls at once, and a name that no tool has.

    Its adapter accepts no name but those of its tools, so that a made-up one ends the run before there is a call.
    """
    return driver in WAYS_V2 or scenario not in {"unknown_tool", "parallel"}


async def in_loop(script: Script, tools: Sequence[Any]) -> Any:
    """Run an agent in the event loop of the caller."""
    with dspy.context(lm=script.model()):
        return await dspy.ReAct("question -> answer", tools=tools).acall(question="Go on.")


IN_LOOP = (in_loop,)
MODEL, TOOLS = Script, lambda functions: [plain_tool(one) for one in functions.values()]
