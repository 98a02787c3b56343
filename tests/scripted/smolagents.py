"""A scripted model of smolagents, and a driver for each way of running an agent with it."""

from __future__ import annotations

import inspect
import itertools
import json
from typing import TYPE_CHECKING, Any

from rich.console import Console
from smolagents import AgentLogger, CodeAgent, LogLevel, Tool, ToolCallingAgent
from smolagents.models import (
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    MessageRole,
    Model,
)

from otel_loopguard.testing import Ask
from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools

_MOST_STEPS = 100
_numbers = itertools.count()


class ScriptedModel(Model):  # type: ignore[misc,unused-ignore]  # the base class is untyped
    """Makes the calls of its steps, one step a request, and keeps the requests. Without tools it writes code."""

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        super().__init__(model_id="scripted")
        self.steps = steps
        self.answer = answer
        self.seen: list[list[Any]] = []
        self.step = 0

    def generate(self, messages: list[Any], *args: Any, tools_to_call_from: Any = None, **kwargs: Any) -> ChatMessage:
        """Answer at once."""
        asked = self._next(messages)
        if tools_to_call_from is None:
            return ChatMessage(MessageRole.ASSISTANT, f"<code>\n{self._code(asked)}\n</code>")
        return ChatMessage(MessageRole.ASSISTANT, None, tool_calls=self._calls(asked))

    def generate_stream(self, messages: list[Any], *args: Any, tools_to_call_from: Any = None, **kwargs: Any) -> Any:
        """Answer with one delta."""
        asked = self._next(messages)
        if tools_to_call_from is None:
            yield ChatMessageStreamDelta(f"<code>\n{self._code(asked)}\n</code>")
            return
        deltas = [
            ChatMessageToolCallStreamDelta(number, call.id, call.type, call.function)
            for number, call in enumerate(self._calls(asked))
        ]
        yield ChatMessageStreamDelta("", tool_calls=deltas)

    def _next(self, messages: list[Any]) -> Sequence[Ask]:
        self.seen.append(list(messages))
        first = messages[-1].role == MessageRole.USER  # a task, and no result yet
        self.step = 0 if first else self.step + 1
        return next_calls(self.steps, self.step)

    def _calls(self, asked: Sequence[Ask]) -> list[ChatMessageToolCall]:
        wanted = [(ask.tool, ask.arguments) for ask in asked] or [("final_answer", {"answer": self.answer})]
        return [
            ChatMessageToolCall(
                ChatMessageToolCallFunction(_written(arguments), name), f"call-{next(_numbers):06}", "function"
            )
            for name, arguments in wanted
        ]

    def _code(self, asked: Sequence[Ask]) -> str:
        lines = [
            f"print({ask.tool}({', '.join(f'{name}={value!r}' for name, value in ask.arguments.items())}))"
            for ask in asked
        ]
        return "\n".join(lines) or f"final_answer({self.answer!r})"

    @property
    def read(self) -> list[str]:
        """The text that the last request has of each step: the results, what its code printed, or an error."""
        last = self.seen[-1] if self.seen else []
        texts = [_text(message) for message in last if message.role == MessageRole.TOOL_RESPONSE]
        return [read for text in texts if (read := _read(text))]


def _read(text: str) -> str:
    for start in ("Observation:\n", "Execution logs:\n"):
        text = text.removeprefix(start)
    return text.partition("Last output from code snippet:")[0].strip()


def _text(message: Any) -> str:
    content = message.content
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def _written(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def agent_of(kind: type[Any], model: Any, tools: Sequence[Any] = (), **options: Any) -> Any:
    """Build an agent of this kind that follows this script."""
    made = [one if hasattr(one, "inputs") else tool_of(one) for one in tools]
    logger = AgentLogger(LogLevel.OFF, Console(quiet=True))
    return kind(tools=made, model=model, **{"max_steps": _MOST_STEPS, "logger": logger, **options})


def tool_of(function: Callable[..., Any]) -> Any:
    """Make a tool of a function. ``tool`` would ask for a docstring that describes each argument."""
    inputs = {name: {"type": "any", "description": name} for name in inspect.signature(function).parameters}
    facts = {
        "name": function.__name__,
        "description": function.__doc__ or "",
        "inputs": inputs,
        "output_type": "any",
        "skip_forward_signature_validation": True,
        "forward": lambda self, *args, **kwargs: function(*args, **kwargs),
    }
    return type("Made", (Tool,), facts)()


def run(agent: Any) -> Any:
    """Run the agent to its end."""
    return agent.run("Go on.")


def run_stream(agent: Any) -> Any:
    """Read the steps of the agent."""
    return list(steps_of(agent))[-1].output


def steps_of(agent: Any) -> Iterator[Any]:
    """Start the agent, and return the stream of its steps."""
    return agent.run("Go on.", stream=True)  # type: ignore[no-any-return]


def driver(kind: type[Any], go: Callable[[Any], Any] = run, **options: Any) -> Any:
    """Make a driver that runs an agent of this kind this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        model = ScriptedModel(steps)
        return transcript_of(lambda: go(agent_of(kind, model, list(tools.values()), **options)), model)

    return drive


DRIVERS = {
    "tool-calling": driver(ToolCallingAgent),
    "tool-calling-stream": driver(ToolCallingAgent, run_stream),
    "tool-calling-stream-outputs": driver(ToolCallingAgent, stream_outputs=True),
    "code": driver(CodeAgent),
    "code-stream": driver(CodeAgent, run_stream),
    "code-stream-outputs": driver(CodeAgent, stream_outputs=True),
}

MODEL, TOOLS = ScriptedModel, lambda functions: [tool_of(one) for one in functions.values()]


def _asks(kind: type[Any], inner: type[Any]) -> Any:
    """Let an agent ask another one, which it manages."""

    def nested(boss: ScriptedModel, model: ScriptedModel, tools: Sequence[Any]) -> None:
        helper = agent_of(inner, model, tools, name="helper", description="Helps.")
        run(agent_of(kind, boss, managed_agents=[helper]))

    return (lambda task: Ask("helper", {"task": task, "additional_args": {}})), nested


_KINDS = (ToolCallingAgent, CodeAgent)
NESTED = {f"{kind.__name__}-{inner.__name__}": _asks(kind, inner) for kind in _KINDS for inner in _KINDS}
