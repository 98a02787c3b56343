"""Anthropic's client, and those for Bedrock and Vertex: messages, also of the beta, and its tool runner."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.content import arguments_of
from otel_loopguard.instrumentation.model_api import Dialect, ModelClient
from otel_loopguard.instrumentation.models.fields import count, field, sequence
from otel_loopguard.instrumentation.models.stainless import targets
from otel_loopguard.turns.messages import Message, Reply, WrittenCall, WrittenResult, plain_text, unmarked

if TYPE_CHECKING:
    from collections.abc import Mapping

# --- requests ----------------------------------------------------------------------------------------------------


def _mark(message: Any) -> int:
    get = message.get if type(message) is dict else partial(field, message)
    content, keys = get("content"), [get("role")]
    if type(content) is str:
        return hash((*keys, content))
    for block in content if type(content) is list else (content,):
        value = block
        if type(block) is dict:
            kind = block.get("type")
            if kind == "tool_result":
                keys.append(block.get("tool_use_id"))
                value = block.get("content")
            elif kind == "tool_use":
                value = [block.get("id"), block.get("name"), block.get("input")]
            elif kind == "text":
                value = block.get("text")
        keys.append(value if type(value) is str else unmarked(value))
    return hash(tuple(keys))


def _read(message: Any) -> Message:
    content, by_user = field(message, "content"), field(message, "role") == "user"
    if not isinstance(content, list):
        return Message(by_user=by_user, text=content, said=None if by_user else content)
    written = [block for block in content if _is_of_user(block)] if by_user else []
    return Message(
        tuple(_calls(content)), tuple(_results(content)), bool(written), written, None if by_user else content
    )


def _is_of_user(block: Any) -> bool:
    kind = field(block, "type")
    return bool(field(block, "text")) if kind == "text" else not str(kind).endswith("tool_result")


def _calls(content: Any) -> list[WrittenCall]:
    """Read the calls in blocks. ``server_tool_use`` and ``mcp_tool_use`` are calls that the provider runs."""
    return [
        WrittenCall(field(block, "id"), field(block, "name"), arguments_of(field(block, "input")))
        for block in content
        if str(field(block, "type")).endswith("tool_use")
    ]


def _results(content: Any) -> list[WrittenResult]:
    return [
        WrittenResult(field(block, "tool_use_id"), field(block, "content"), field(block, "is_error") is True)
        for block in content
        if str(field(block, "type")).endswith("tool_result")
    ]


def _tools(body: Mapping[str, Any]) -> frozenset[str] | None:
    if _previous(body) is not None or body.get("mcp_servers"):
        return None  # the provider has their names
    names = [field(tool, "name") for tool in sequence(body.get("tools"))]  # a toolset has none
    return None if None in names else frozenset(names)


def _previous(body: Mapping[str, Any]) -> str | None:
    """Return the message after which the provider continues a conversation that it keeps, with its tools."""
    found: str | None = field(body.get("thread"), "previous_message_id")
    return found


def _withdraw(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**body, "tool_choice": {"type": "none"}} if _tools(body) != frozenset() else body


def _annotate(message: Any, texts: Mapping[int, str]) -> Any:
    if not isinstance(message, dict) or message.get("role") != "user":
        return message  # what the provider ran itself stays as it came
    if not _read(message).results:
        return _longer(message, texts[0])
    blocks, position = [], 0
    for block in message["content"]:
        if isinstance(block, dict) and str(block.get("type")).endswith("tool_result"):
            blocks.append(_longer(block, texts[position]) if position in texts else block)
            position += 1
        else:
            blocks.append(block)
    return {**message, "content": blocks}


def _longer(block: Mapping[str, Any], text: str) -> Mapping[str, Any]:
    content = block.get("content")
    if isinstance(content, str) and content:
        return {**block, "content": f"{content}\n\n{text}"}
    return {**block, "content": [*sequence(content), {"type": "text", "text": text}]}


# --- replies -----------------------------------------------------------------------------------------------------


def _reply(reply: Any) -> Reply | None:
    content = field(reply, "content")
    if not isinstance(content, list):
        return None
    usage = field(reply, "usage")
    return Reply(
        calls=tuple(_calls(content)),
        results=tuple(_results(content)),
        id=field(reply, "id"),
        input_tokens=_input_tokens(usage),
        output_tokens=count(usage, "output_tokens"),
        cached_tokens=count(usage, "cache_read_input_tokens"),
    )


def _input_tokens(usage: Any) -> int | None:
    """Return the number of tokens that the model read, with those of the cache, which Anthropic counts apart."""
    read = count(usage, "input_tokens")
    cached = (count(usage, f"cache_{way}_input_tokens") or 0 for way in ("creation", "read"))
    return None if read is None else read + sum(cached)


def _text(reply: Any) -> str:
    delta = field(reply, "delta")
    return (
        plain_text(field(reply, "content")) if delta is None else field(delta, "text") or field(delta, "thinking") or ""
    )


class _Events:
    """A streamed reply: each block begins, gets its input in pieces of JSON text, and ends."""

    def __init__(self) -> None:
        self._message: Any = None
        self._open: dict[Any, tuple[Any, list[str]]] = {}
        self._calls: list[WrittenCall] = []
        self._results: list[WrittenResult] = []
        self._output_tokens: int | None = None

    def add(self, event: Any) -> None:
        kind, index = field(event, "type"), field(event, "index")
        if kind == "message_start":
            self._message = field(event, "message")
        elif kind == "content_block_start":
            block = field(event, "content_block")
            if str(field(block, "type")).endswith(("tool_use", "tool_result")):
                self._open[index] = block, []
        elif kind == "content_block_delta" and index in self._open:
            self._open[index][1].append(field(field(event, "delta"), "partial_json") or "")
        elif kind == "content_block_stop" and index in self._open:
            block, pieces = self._open.pop(index)
            written = "".join(pieces)
            calls = _calls([block])
            self._calls += [call._replace(arguments=arguments_of(written)) for call in calls] if written else calls
            self._results += _results([block])
        elif kind == "message_delta":
            self._output_tokens = count(field(event, "usage"), "output_tokens")

    def reply(self) -> Reply:
        usage = field(self._message, "usage")
        return Reply(
            calls=tuple(self._calls),
            results=tuple(self._results),
            id=field(self._message, "id"),
            input_tokens=_input_tokens(usage),
            output_tokens=self._output_tokens,
            cached_tokens=count(usage, "cache_read_input_tokens"),
        )


MESSAGES = Dialect(
    messages=lambda body: sequence(body.get("messages")),
    marks=lambda messages: [*map(_mark, messages)],
    read=_read,
    tools=_tools,
    previous=_previous,
    annotate=_annotate,
    replace=lambda body, messages: {**body, "messages": messages},
    withdraw=_withdraw,
    demands=lambda body: field(body.get("tool_choice"), "type") in ("any", "tool"),
    only=lambda body, tool: {**body, "tool_choice": {"type": "tool", "name": tool}},
    reply=_reply,
    collector=_Events,
    text=_text,
    provider="anthropic",
)

CLIENT = ModelClient(
    name="anthropic",
    title="Anthropic",
    modules=("anthropic",),
    targets=targets("anthropic", "Anthropic", lambda path: MESSAGES if path.endswith("/v1/messages") else None),
    versions={"oldest": ("anthropic==0.39.0", "httpx<0.28"), "newest": ("anthropic",)},
    tested={"anthropic": "2.14.0"},
)
