"""An agent that is stuck, or one that works: an ordinary Pydantic AI program. Nothing of otel_loopguard is in it.

    opentelemetry-instrument python examples/pydantic_ai_agent.py            # a stuck agent
    opentelemetry-instrument python examples/pydantic_ai_agent.py --working  # one that works

The model is a script, so this needs no network and no key. Its stuck version reads the same file until a result is a
refusal, or 12 times. The script is in this file, so that the program is complete.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

READS = {"count": 0}
FILES = {
    "config.yaml": "retries: 3\ntimeout: 20\n",
    "main.py": "print('hello')\n",
    "notes.txt": "Ask Ada about the timeout.\n",
}


def read_file(path: str) -> str:
    """Read a file of the project."""
    READS["count"] += 1
    return FILES.get(path, "no such file")


class Script:
    """A model that follows a list of files to read; it gives up when a tool result is a refusal."""

    def __init__(self, files: list[str], *, stubborn: bool = False) -> None:
        self.files = files
        self.stubborn = stubborn

    def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:  # noqa: ARG002
        path, answer, step = self._next(messages)
        if path is None:
            return ModelResponse(parts=[TextPart(answer)])
        return ModelResponse(parts=[ToolCallPart("read_file", {"path": path}, f"call-{step}")])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:  # noqa: ARG002
        path, answer, step = self._next(messages)
        if path is None:
            yield answer
        else:
            yield {0: DeltaToolCall("read_file", json.dumps({"path": path}), tool_call_id=f"call-{step}")}

    def _next(self, messages: list[ModelMessage]) -> tuple[str | None, str, int]:
        results = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        for number, result in enumerate(results[-1:], start=len(results)):
            print(f"  {number:2}. the model reads: {' / '.join(str(result).split(chr(10)))[:150]}")
        refused = bool(results) and "tool_loop_detected" in str(results[-1])
        step = len(results)
        if step >= len(self.files) or (refused and not self.stubborn):
            return None, "I already know what the file says." if refused else "Done.", step
        return self.files[step], "", step


async def run(agent: Agent[None, str], *, streamed: bool) -> str:
    """Run the agent once, in one way or the other."""
    if not streamed:
        return (await agent.run("What is the timeout?")).output
    async with agent.run_stream("What is the timeout?") as result:
        return await result.get_output()


def main() -> None:
    """Run the agent once and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--working", action="store_true", help="an agent that makes progress: it reads each file once")
    parser.add_argument("--stubborn", action="store_true", help="a stuck agent that ignores refusals")
    parser.add_argument("--streamed", action="store_true", help="with run_stream instead of run")
    options = parser.parse_args()
    files = list(FILES) if options.working else ["config.yaml"] * (30 if options.stubborn else 12)
    script = Script(files, stubborn=options.stubborn)
    agent = Agent(FunctionModel(script.respond, stream_function=script.stream), tools=[read_file], name="reader")
    print(f"The model asks to read: {', '.join(files[:3])}, ...")
    try:
        answer = asyncio.run(run(agent, streamed=options.streamed))
    except Exception as error:  # noqa: BLE001 - this program shows any exception that ends the run
        answer = f"(no answer: {type(error).__name__}: {error})"
    print(f"The agent answers: {answer}")
    print(f"The file was read {READS['count']} times.")


if __name__ == "__main__":
    main()
