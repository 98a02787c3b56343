"""The models of Pydantic AI, whatever client is below. Each part of a message is an entry."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard import semconv
from otel_loopguard.instrumentation.content import arguments_of
from otel_loopguard.instrumentation.model_api import Dialect, Sent, as_body
from otel_loopguard.instrumentation.model_request import async_request_wrapper, context_request_wrapper, in_steps
from otel_loopguard.instrumentation.models.fields import count, field, sequence
from otel_loopguard.instrumentation.models.streams import Tapped
from otel_loopguard.instrumentation.targets import OverrideTarget
from otel_loopguard.turns.messages import NO_MESSAGE, Message, Reply, WrittenCall, WrittenResult, unmarked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_loopguard.instrumentation.model_api import Listener
    from otel_loopguard.instrumentation.model_request import ErrorOf

_PARAMETERS: Final = ("messages", "model_settings", "model_request_parameters", "run_context")
_KEY: Final = "loopguard"
"""The key of a sentence in a structured result."""
_NAMED_BY_PROVIDER: Final = ("mcp_server", "tool_search")
"""The kinds of tools that stand for others, whose names are known to the provider only."""

# --- requests ----------------------------------------------------------------------------------------------------


def _messages(body: Mapping[str, Any]) -> Sequence[Any]:
    return [part for message in body["messages"] for part in message.parts]


def _mark(part: Any) -> int:
    kind, content = part.part_kind, getattr(part, "content", None)
    if kind.endswith("tool-call"):
        content = part.args
    key = content if type(content) is str else unmarked(content)
    return hash((kind, getattr(part, "tool_call_id", None), getattr(part, "tool_name", None), key))


def _read(part: Any) -> Message:
    kind = part.part_kind
    if kind.endswith("tool-call"):
        return Message(calls=(_call(part),))
    if kind.endswith("tool-return") or (kind == "retry-prompt" and part.tool_name is not None):
        return Message(results=(_result(part),))
    if kind == "user-prompt":
        return Message(by_user=True, text=part.content)
    return Message(said=part.content) if kind == "text" else NO_MESSAGE


def _call(part: Any) -> WrittenCall:
    return WrittenCall(part.tool_call_id, part.tool_name, arguments_of(part.args))


def _result(part: Any) -> WrittenResult:
    failed = part.part_kind == "retry-prompt" or getattr(part, "outcome", "success") in ("failed", "retried")
    return WrittenResult(part.tool_call_id, part.content, True if failed else None, part.tool_name)


def _tools(body: Mapping[str, Any]) -> frozenset[str] | None:
    declared = body["model_request_parameters"]
    names = {tool.name for tool in (*declared.function_tools, *declared.output_tools)}
    for native in sequence(getattr(declared, "native_tools", None) or getattr(declared, "builtin_tools", None)):
        if native.kind in _NAMED_BY_PROVIDER:
            return None
        names.add(native.kind)
    return frozenset(names)


def _annotate(part: Any, texts: Mapping[int, str]) -> Any:
    content, text = getattr(part, "content", None), texts[0]
    if part.part_kind == "retry-prompt":
        content = part.model_response()
    elif part.part_kind not in ("tool-return", "user-prompt"):
        return part
    if isinstance(content, dict):
        return replace(part, content={**content, _KEY: text})
    if isinstance(content, (list, tuple)):
        return replace(part, content=[*content, text])
    written = content if isinstance(content, str) else part.model_response_str()
    return replace(part, content=f"{written}\n\n{text}" if written else text)


def _replaced(body: Mapping[str, Any], parts: list[Any]) -> Mapping[str, Any]:
    messages, first = [], 0
    for message in body["messages"]:
        own, first = parts[first : first + len(message.parts)], first + len(message.parts)
        changed = any(one is not other for one, other in zip(own, message.parts, strict=True))
        messages.append(replace(message, parts=own) if changed else message)
    return {**body, "messages": messages}


@cache
def _has_choice() -> bool:
    """Return True if a request can have tools that must not be called."""
    return "tool_choice" in import_module("pydantic_ai.settings").ModelSettings.__annotations__


def _withdraw(body: Mapping[str, Any], *, needs_tools: bool) -> Mapping[str, Any]:
    """Leave the tools that are the answer: where a call is demanded, the model has to call one of them.

    ``needs_tools``: the provider rejects results of tools if none is declared.
    """
    if _tools(body) == frozenset():
        return body
    if _has_choice():
        return {**body, "model_settings": {**(body["model_settings"] or {}), "tool_choice": "none"}}
    if needs_tools:
        return body
    return {**body, "model_request_parameters": replace(body["model_request_parameters"], function_tools=[])}


def _demands(body: Mapping[str, Any]) -> bool:
    declared, choice = body["model_request_parameters"], (body["model_settings"] or {}).get("tool_choice")
    takes_text = declared.allow_text_output or declared.allow_image_output
    return not takes_text or choice == "required" or (isinstance(choice, list) and bool(choice))


# --- replies -----------------------------------------------------------------------------------------------------


def _reply(response: Any) -> Reply | None:
    parts = field(response, "parts")
    if parts is None:
        return None
    read = [_read(part) for part in parts]
    reply = Reply(
        calls=tuple(call for message in read for call in message.calls),
        results=tuple(result for message in read for result in message.results),
        model=response.model_name,
    )
    usage = response.usage
    if not usage.input_tokens and not usage.output_tokens:  # the framework has no other form of "not told"
        return reply
    return reply._replace(
        input_tokens=count(usage, "input_tokens"),
        output_tokens=count(usage, "output_tokens"),
        cached_tokens=count(usage, "cache_read_tokens"),
    )


def _text(reply: Any) -> str:
    """Read a whole reply, or an event of a stream. The event at the end of a part has all of its text again."""
    if not isinstance(reply, tuple):
        return "".join(map(_written, sequence(field(reply, "parts"))))
    event = reply[1]
    if field(event, "event_kind") == "part_start":
        return _written(event.part)
    return field(field(event, "delta"), "content_delta") or ""


def _written(part: Any) -> str:
    return part.content or "" if field(part, "part_kind") in ("text", "thinking") else ""


class _Streamed:
    """Collects nothing: each chunk is the stream, which puts its reply together itself, with an event of it."""

    def __init__(self) -> None:
        self._stream: Any = None

    def add(self, chunk: Any) -> None:
        self._stream = chunk[0]

    def reply(self) -> Reply:
        return _reply(self._stream.get()) or Reply()


MESSAGES_OF_AI = Dialect(
    messages=_messages,
    marks=lambda parts: [*map(_mark, parts)],
    read=_read,
    tools=_tools,
    previous=lambda body: None,  # all messages are here, also those that the provider keeps
    annotate=_annotate,
    replace=_replaced,
    withdraw=partial(_withdraw, needs_tools=False),
    demands=_demands,
    only=lambda body, tool: _withdraw(body, needs_tools=False),
    reply=_reply,
    collector=_Streamed,
    text=_text,
)

_PROVIDERS: Final = {
    "bedrock": "aws.bedrock", "google": "gcp.gemini", "google-gla": "gcp.gemini", "google-cloud": "gcp.vertex_ai",
    "google-vertex": "gcp.vertex_ai", "mistral": "mistral_ai", "xai": "x_ai", "grok": "x_ai",
}  # fmt: skip
"""The framework's names of providers whose names in the GenAI conventions differ."""
_NEED_TOOLS: Final = ("anthropic", "bedrock")


@lru_cache(maxsize=64)
def _dialect_of(system: str) -> Dialect:
    provider, needs_tools = _PROVIDERS.get(system, system), system in _NEED_TOOLS
    is_google = provider.startswith("gcp.")
    return replace(
        MESSAGES_OF_AI,
        withdraw=partial(_withdraw, needs_tools=needs_tools),
        only=lambda body, tool: _withdraw(body, needs_tools=needs_tools),
        operation=semconv.OPERATION_GENERATE_CONTENT if is_google else semconv.OPERATION_CHAT,
        provider=provider,
    )


# --- the methods of a model --------------------------------------------------------------------------------------

_ABOVE: Final = ("pydantic_ai.durable_exec", "pydantic_ai.models.instrumented")
"""The modules of models above the one that asks: it asks in a step that may be replayed, or in a span."""


def _read_request(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent | None:
    if type(model).__module__.startswith(_ABOVE):
        return None
    body, arguments = as_body(_PARAMETERS, args, kwargs)
    last = body["messages"][-1]
    if getattr(last, "state", None) == "suspended" and model.continuation_delay(last) is not None:
        return None  # it only asks if the provider has done the job
    run_id = getattr(last, "run_id", None)
    name = "" if hasattr(model, "models") else model.model_name  # its reply names the one of them that was asked
    return Sent(_dialect_of(_system(model)), body, name, arguments, _listen, run_id=run_id)


def _system(model: Any) -> str:
    """Return the framework's name of the provider; that of the first of several models."""
    return str(model.models[0].system if hasattr(model, "models") else model.system)


def _listen(reply: Any, listener: Listener) -> Any:
    if hasattr(reply, "parts"):
        listener.whole(reply)
    elif type(reply).__name__ == "CompletedStreamedResponse":
        listener.whole(reply.get())
    else:
        of_stream: Any = _OfStream(reply, listener)
        own = in_steps()
        if reply._event_iterator is not None:  # noqa: SLF001 - the stream has no public way to be watched
            reply._event_iterator = Tapped(own(reply._event_iterator), of_stream)  # noqa: SLF001 - as above
        else:
            make = reply._get_event_iterator  # noqa: SLF001 - as above
            reply._get_event_iterator = lambda: Tapped(own(make()), of_stream)  # noqa: SLF001 - as above
    return reply


class _OfStream:
    """Tells a listener of the events of a stream, and of its end once."""

    def __init__(self, stream: Any, listener: Listener) -> None:
        self.shield = listener.shield
        self._stream = stream
        self._listener = listener
        self._is_over = False

    def chunk(self, event: Any) -> None:
        self._listener.chunk((self._stream, event))

    def over(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._listener.over()

    def failed(self) -> None:
        self._listener.failed()


def models(error: ErrorOf) -> tuple[OverrideTarget, ...]:
    """Return the targets: each class of models, because the program sees the model of a run, and may ask it itself.

    ``error``: return the class of the error that ends a run.
    """
    module = "pydantic_ai.models"
    return (
        OverrideTarget(module, "Model.request", async_request_wrapper(_read_request, error)),
        OverrideTarget(module, "Model.request_stream", context_request_wrapper(_read_request, error)),
    )
