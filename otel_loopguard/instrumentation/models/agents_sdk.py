"""The models of the OpenAI Agents SDK, whatever client is below: their requests have the items of the Responses API."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard import semconv
from otel_loopguard.instrumentation.model_api import Sent, as_body
from otel_loopguard.instrumentation.model_request import async_generator_request_wrapper, async_request_wrapper
from otel_loopguard.instrumentation.models.fields import sequence
from otel_loopguard.instrumentation.models.openai_responses import RESPONSES
from otel_loopguard.instrumentation.models.streams import tapped
from otel_loopguard.instrumentation.targets import OverrideTarget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.instrumentation.model_request import ErrorOf
    from otel_loopguard.turns.messages import Reply

_PARAMETERS: Final = (
    "system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs", "tracing",
)  # fmt: skip
_NAMED_BY_PROVIDER: Final = ("hosted_mcp", "tool_search")
"""Tools that stand for others, whose names are known to the provider only."""

_MOST_AROUND: Final = 8

# --- requests ----------------------------------------------------------------------------------------------------


def _tools(body: Mapping[str, Any]) -> frozenset[str] | None:
    names = {tool.name for tool in sequence(body.get("tools"))}
    names.update(handoff.tool_name for handoff in sequence(body.get("handoffs")))
    return None if names.intersection(_NAMED_BY_PROVIDER) else frozenset(names)


def _previous(body: Mapping[str, Any]) -> str | None:
    found: str | None = body.get("conversation_id") or body.get("previous_response_id")
    return found


def _chosen(body: Mapping[str, Any], choice: str) -> Mapping[str, Any]:
    return {**body, "model_settings": replace(body["model_settings"], tool_choice=choice)}


def _demands(body: Mapping[str, Any]) -> bool:
    return getattr(body["model_settings"], "tool_choice", None) not in (None, "auto", "none")


# --- replies -----------------------------------------------------------------------------------------------------


def _reply(response: Any) -> Reply | None:
    read = RESPONSES.reply(response)
    if read is None:
        return None
    read = read._replace(id=response.response_id)
    if not read.input_tokens and not read.output_tokens:  # the SDK's own ``Usage()``: its model was told none
        read = read._replace(input_tokens=None, output_tokens=None, cached_tokens=None)
    return read


AGENTS = replace(
    RESPONSES,
    tools=_tools,
    previous=_previous,
    withdraw=lambda body: _chosen(body, "none") if _tools(body) != frozenset() else body,
    demands=_demands,
    only=_chosen,
    reply=_reply,
)

OTHERS = replace(AGENTS, provider=semconv.UNKNOWN_PROVIDER)
"""For a model that is not OpenAI's."""

# --- the methods of a model --------------------------------------------------------------------------------------


def _read(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent:
    body, arguments = as_body(_PARAMETERS, args, kwargs)
    asks = _innermost(model)
    is_openai = any(kind.__module__.startswith("agents.models.openai") for kind in type(asks).__mro__)
    name = getattr(asks, "model", None)
    return Sent(AGENTS if is_openai else OTHERS, body, name if isinstance(name, str) else "", arguments, tapped)


def _innermost(model: Any) -> Any:
    """Return the model that asks, below the models of the program that wrap it."""
    for _ in range(_MOST_AROUND):
        inner = getattr(model, "model", None)
        if inner is None or isinstance(inner, str):
            break
        model = inner
    return model


def models(error: ErrorOf) -> tuple[OverrideTarget, ...]:
    """Return the targets: each class of models, because a proxy around a model would be another one to the SDK.

    ``error``: return the class of the error that ends a run.
    """
    module = "agents.models.interface"
    return (
        OverrideTarget(module, "Model.get_response", async_request_wrapper(_read, error)),
        OverrideTarget(module, "Model.stream_response", async_generator_request_wrapper(_read, error)),
    )
