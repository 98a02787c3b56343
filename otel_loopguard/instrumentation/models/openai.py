"""OpenAI's client: the method of the base client that every way of asking passes, above the client's own retries."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from otel_loopguard.errors import ToolLoopError
from otel_loopguard.instrumentation.model_api import ModelClient, Sent
from otel_loopguard.instrumentation.model_request import async_request_wrapper, request_wrapper
from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.instrumentation.models.streams import TappedAsyncIterator, TappedIterator
from otel_loopguard.instrumentation.targets import CallTarget

if TYPE_CHECKING:
    from otel_loopguard.instrumentation.model_api import Listener


def _read(instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent | None:
    options = args[1] if len(args) > 1 else kwargs["options"]
    url, body = str(options.url).partition("?")[0], options.json_data
    if options.method.lower() != "post" or not isinstance(body, dict) or not url.endswith("/chat/completions"):
        return None

    def arguments(changed: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        copied = options.model_copy(update={"json_data": changed})
        if len(args) > 1:
            return (args[0], copied, *args[2:]), kwargs
        return args, {**kwargs, "options": copied}

    return Sent(CHAT, body, str(body.get("model", "")), arguments, listen)


def listen(reply: Any, listener: Listener) -> Any:
    """Pass a reply of this client to the listener. A stream keeps its type: only its inner iterator is replaced."""
    iterator = getattr(reply, "_iterator", None)
    if iterator is None:
        parse = getattr(reply, "parse", None)  # of a raw response; it keeps the parsed reply
        if parse is None or not hasattr(reply, "http_response"):
            listener.whole(reply)
        return reply
    tapped = TappedAsyncIterator if hasattr(iterator, "__anext__") else TappedIterator
    reply._iterator = tapped(iterator, listener)  # noqa: SLF001 - there is no public way to read a stream in passing
    return reply


def error_class() -> type[ToolLoopError]:
    """Return the class of the error that ends a run here: CrewAI retries all but its own ``HookAborted``."""
    module: Any = sys.modules.get("crewai.hooks.dispatch")
    aborted = getattr(module, "HookAborted", None)
    if aborted is None:
        return ToolLoopError
    return type("ToolLoopError", (ToolLoopError, aborted), {"__module__": ToolLoopError.__module__})


CLIENT = ModelClient(
    name="openai",
    title="OpenAI",
    modules=("openai",),
    targets=(
        CallTarget("openai._base_client", "SyncAPIClient.request", request_wrapper(_read, error_class)),
        CallTarget("openai._base_client", "AsyncAPIClient.request", async_request_wrapper(_read, error_class)),
    ),
    versions={"oldest": ("openai==1.54.0",), "newest": ("openai",)},
)
