"""LiteLLM: the functions of its package, because it asks only some providers through clients that are patched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.model_api import JUDGED, ModelClient, Sent, as_body, may_be_proxy
from otel_loopguard.instrumentation.model_request import async_request_wrapper, request_wrapper
from otel_loopguard.instrumentation.models.anthropic import MESSAGES
from otel_loopguard.instrumentation.models.error_classes import litellm_error_class
from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.instrumentation.models.openai_responses import RESPONSES
from otel_loopguard.instrumentation.models.streams import anext_wrapper, listen_at_next, next_wrapper
from otel_loopguard.instrumentation.targets import CallTarget

if TYPE_CHECKING:
    from otel_loopguard.instrumentation.model_api import Dialect, Listener
    from otel_loopguard.instrumentation.model_request import Read


def _reader(dialect: Dialect, *names: str) -> Read:
    """Return the reader of a function whose first parameters have these names. The request is its keywords."""

    def read(instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent:
        body, arguments = as_body(names, args, kwargs)
        address = body.get("api_base") or body.get("base_url")
        judged = _judged if isinstance(address, str) and may_be_proxy(address) else None
        return Sent(dialect, body, str(body.get("model", "")), arguments, _listen, judged)

    return read


def _judged(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, {**kwargs, "extra_headers": {**(kwargs.get("extra_headers") or {}), JUDGED: "1"}}


def _listen(reply: Any, listener: Listener) -> Any:
    if hasattr(reply, "__next__") or hasattr(reply, "__anext__"):
        listen_at_next(reply, listener)
    else:
        listener.whole(reply)
    return reply


_CHAT = _reader(CHAT, "model", "messages")
_RESPONSES = _reader(RESPONSES, "input", "model")
_MESSAGES = _reader(MESSAGES, "max_tokens", "messages", "model")

_STREAMS = (
    ("litellm.litellm_core_utils.streaming_handler", "CustomStreamWrapper"),
    ("litellm.responses.streaming_iterator", "ResponsesAPIStreamingIterator"),
    ("litellm.responses.streaming_iterator", "SyncResponsesAPIStreamingIterator"),
    ("litellm.responses.litellm_completion_transformation.streaming_iterator", "LiteLLMCompletionStreamingIterator"),
)

CLIENT = ModelClient(
    name="litellm",
    title="LiteLLM",
    modules=("litellm",),
    targets=(
        CallTarget("litellm", "completion", request_wrapper(_CHAT, litellm_error_class)),
        CallTarget("litellm", "acompletion", async_request_wrapper(_CHAT, litellm_error_class)),
        CallTarget("litellm", "responses", request_wrapper(_RESPONSES, litellm_error_class)),
        CallTarget("litellm", "aresponses", async_request_wrapper(_RESPONSES, litellm_error_class)),
        CallTarget("litellm", "anthropic_messages", async_request_wrapper(_MESSAGES, litellm_error_class)),
        *(CallTarget(module, f"{owner}.__next__", next_wrapper) for module, owner in _STREAMS),
        *(CallTarget(module, f"{owner}.__anext__", anext_wrapper) for module, owner in _STREAMS),
    ),
    # With a newer httpx this litellm cannot be used.
    versions={"oldest": ("litellm==1.61.20", "httpx<0.28"), "newest": ("litellm",)},
    tested={"litellm": "1.110.2"},
)
