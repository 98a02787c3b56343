"""An agent that is stuck, or one that works: an ordinary program with the OpenAI Agents SDK. Nothing of
otel_loopguard is in it.

    opentelemetry-instrument python examples/openai_agents_agent.py            # a stuck agent
    opentelemetry-instrument python examples/openai_agents_agent.py --working  # one that works

The model is a script, so this needs no network and no key. Its stuck version reads the same file until a result is a
refusal, or 12 times. The script is in this file, so that the program is complete.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import TYPE_CHECKING, Any

from agents import Agent, Runner, function_tool, set_tracing_disabled
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

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

READS = {"count": 0}
FILES = {
    "config.yaml": "retries: 3\ntimeout: 20\n",
    "main.py": "print('hello')\n",
    "notes.txt": "Ask Ada about the timeout.\n",
}


@function_tool
def read_file(path: str) -> str:
    """Read a file of the project."""
    READS["count"] += 1
    return FILES.get(path, "no such file")


class ScriptedModel(Model):
    """A model that follows a list of files to read; it gives up when a tool result is a refusal."""

    def __init__(self, files: list[str], *, stubborn: bool = False) -> None:
        self.files = files
        self.stubborn = stubborn

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002, ARG002
        return ModelResponse(output=[self._next(input)], usage=Usage(), response_id=None)

    async def stream_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:  # noqa: A002, ARG002
        response = Response(
            id="response",
            created_at=0,
            model="scripted",
            object="response",
            output=[self._next(input)],
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)

    def _next(self, given: Any) -> Any:
        items = [] if isinstance(given, str) else given
        results = [item["output"] for item in items if item.get("type") == "function_call_output"]
        for number, result in enumerate(results[-1:], start=len(results)):
            print(f"  {number:2}. the model reads: {' / '.join(str(result).split(chr(10)))[:150]}")
        refused = bool(results) and "tool_loop_detected" in str(results[-1])
        step = len(results)
        if step >= len(self.files) or (refused and not self.stubborn):
            return message("I already know what the file says." if refused else "Done.")
        arguments = json.dumps({"path": self.files[step]})
        return ResponseFunctionToolCall(
            type="function_call", name="read_file", arguments=arguments, call_id=f"call-{step}"
        )


def message(text: str) -> ResponseOutputMessage:
    """Make an answer of the model."""
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="message", type="message", role="assistant", status="completed", content=[content])


async def run(agent: Agent[Any], *, streamed: bool) -> Any:
    """Run the agent once, in one way or the other."""
    if not streamed:
        return (await Runner.run(agent, "What is the timeout?", max_turns=40)).final_output
    result = Runner.run_streamed(agent, "What is the timeout?", max_turns=40)
    async for _ in result.stream_events():
        pass
    return result.final_output


def main() -> None:
    """Run the agent once and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--working", action="store_true", help="an agent that makes progress: it reads each file once")
    parser.add_argument("--stubborn", action="store_true", help="a stuck agent that ignores refusals")
    parser.add_argument("--streamed", action="store_true", help="with run_streamed instead of run")
    options = parser.parse_args()
    set_tracing_disabled(True)  # the SDK's own tracing would send to OpenAI
    files = list(FILES) if options.working else ["config.yaml"] * (30 if options.stubborn else 12)
    agent = Agent(name="reader", model=ScriptedModel(files, stubborn=options.stubborn), tools=[read_file])
    print(f"The model asks to read: {', '.join(files[:3])}, ...")
    try:
        answer = asyncio.run(run(agent, streamed=options.streamed))
    except Exception as error:  # noqa: BLE001 - this program shows any exception that ends the run
        answer = f"(no answer: {type(error).__name__}: {error})"
    print(f"The agent answers: {answer}")
    print(f"The file was read {READS['count']} times.")


if __name__ == "__main__":
    main()
