"""Pydantic AI. Nothing of otel_loopguard is in what it runs."""

# mypy: disable-error-code="import-not-found"
# It is not among what development installs: each framework has an environment of its own.

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits

from otel_loopguard.cli.demo.world import failing_as

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.cli.demo.model import Model


def _read(messages: list[Any]) -> list[str]:
    """The tool results, and what the framework itself says of calls that it cannot make."""
    return [
        part.model_response_str() if hasattr(part, "model_response_str") else part.model_response()
        for message in messages
        if not isinstance(message, ModelResponse)
        for part in message.parts
        if hasattr(part, "model_response_str") or (hasattr(part, "model_response") and part.tool_name)
    ]


def _fail(text: str) -> str:
    raise ModelRetry(text)


def run(tools: Mapping[str, Callable[..., str]], model: Model) -> None:
    """One message of a user."""

    def respond(messages: list[Any], _: Any) -> ModelResponse:
        read = _read(messages)
        ask = model.next(read)
        part = TextPart("Done.") if ask is None else ToolCallPart(ask.tool, ask.arguments, f"call-{len(read)}")
        return ModelResponse(parts=[part])

    told = [failing_as(tool, _fail) for tool in tools.values()]
    agent: Any = Agent(FunctionModel(respond), tools=told, name="demo", retries=1_000)
    asyncio.run(agent.run("Go on.", usage_limits=UsageLimits(request_limit=None)))
