"""The OpenAI Agents SDK. Nothing of otel_loopguard is in what it runs."""

# mypy: disable-error-code="import-not-found"
# It is not among what development installs: each framework has an environment of its own.

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import TYPE_CHECKING, Any

from agents import Agent, RunConfig, Runner, function_tool, set_tracing_disabled
from agents.exceptions import ModelBehaviorError
from agents.items import ModelResponse
from agents.models.interface import Model as AgentsModel
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.cli.demo.model import Model

_TELLS_UNKNOWN = "tool_not_found_behavior" in {field.name for field in dataclasses.fields(RunConfig)}


class ScriptedModel(AgentsModel):  # type: ignore[misc,unused-ignore]
    """Asks the demo's model."""

    def __init__(self, script: Model) -> None:
        self._script = script

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """The next call, or the answer."""
        given = args[1] if len(args) > 1 else kwargs["input"]
        items = [] if isinstance(given, str) else given
        read = [_text(item["output"]) for item in items if item.get("type") == "function_call_output"]
        ask = self._script.next(read)
        output: Any = _answer()
        if ask is not None:
            output = ResponseFunctionToolCall(
                type="function_call",
                name=ask.tool,
                arguments=json.dumps(ask.arguments),
                call_id=f"call-{len(read)}",
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        """Nobody streams here."""
        raise NotImplementedError


def _text(output: Any) -> str:
    return output if isinstance(output, str) else " ".join(str(part.get("text", part)) for part in output)


def _answer() -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text="Done.", annotations=[])
    return ResponseOutputMessage(id="answer", type="message", role="assistant", status="completed", content=[content])


def run(tools: Mapping[str, Callable[..., str]], model: Model) -> None:
    """One message of a user."""
    set_tracing_disabled(disabled=True)  # the SDK's own tracing would send to OpenAI
    config = RunConfig(**({"tool_not_found_behavior": "return_error_to_model"} if _TELLS_UNKNOWN else {}))
    agent = Agent(name="demo", model=ScriptedModel(model), tools=[function_tool(tool) for tool in tools.values()])
    try:
        asyncio.run(Runner.run(agent, "Go on.", max_turns=1_000, run_config=config))
    except ModelBehaviorError as error:  # older versions end a run at a tool that does not exist
        model.end(str(error))
