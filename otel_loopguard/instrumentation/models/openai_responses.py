"""OpenAI's Responses API. The provider may keep the conversation: then a request has the new results only."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.instrumentation.content import arguments_of
from otel_loopguard.instrumentation.model_api import Dialect
from otel_loopguard.instrumentation.models.fields import count, demands_call, field, sequence
from otel_loopguard.turns.messages import NO_MESSAGE, Message, Reply, WrittenCall, WrittenResult, plain_text, unmarked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_INPUT_OF: Final = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "mcp_call": "arguments",
    "shell_call": "action",
    "local_shell_call": "action",
    "apply_patch_call": "operation",
    "computer_call": "action",
    "code_interpreter_call": "code",
}
"""For each kind of call, the field with the arguments that the model wrote."""

# --- requests ----------------------------------------------------------------------------------------------------


def _messages(body: Mapping[str, Any]) -> Sequence[Any]:
    written = body.get("input")
    return [{"role": "user", "content": written}] if isinstance(written, str) else sequence(written)


def _mark(item: Any) -> int:
    get = item.get if type(item) is dict else partial(field, item)
    kind = get("type")
    if kind == "function_call_output":
        output = get("output")
        return hash((get("call_id"), output if type(output) is str else unmarked(output)))
    if kind == "function_call":
        return hash((get("call_id"), get("name"), get("arguments")))
    if kind is None or kind == "message":
        content = get("content")
        return hash((get("role"), content if type(content) is str else unmarked(content)))
    if kind == "reasoning":
        return hash((get("id"), get("encrypted_content")))
    return hash(unmarked(item))


def _read(item: Any) -> Message:
    kind = field(item, "type")
    if kind in _INPUT_OF:
        return Message(calls=(_call(item, kind),), results=tuple(_own_result(item)))
    if isinstance(kind, str) and kind.endswith("_call_output"):
        failed = True if field(item, "status") == "failed" else None
        return Message(results=(WrittenResult(_call_id(item), field(item, "output"), failed, field(item, "name")),))
    if field(item, "role") == "user":
        return Message(by_user=True, text=field(item, "content"))
    return Message(said=field(item, "content")) if field(item, "role") == "assistant" else NO_MESSAGE


def _call(item: Any, kind: str) -> WrittenCall:
    """Read a call. Tools that the API itself defines are named by the kind of their calls."""
    name = field(item, "name") or kind.removesuffix("_call")
    return WrittenCall(_call_id(item), name, arguments_of(field(item, _INPUT_OF[kind])))


def _call_id(item: Any) -> str | None:
    found: str | None = field(item, "call_id") or field(item, "id")
    return found


def _own_result(item: Any) -> list[WrittenResult]:
    """Return the result of a call that the provider itself ran: it is a part of the call."""
    kind, error = field(item, "type"), field(item, "error")
    if kind == "mcp_call":
        content = field(item, "output")
    elif kind == "code_interpreter_call":
        content = field(item, "outputs")
    else:
        return []
    if content is None and error is None:
        return []
    return [WrittenResult(_call_id(item), error if content is None else content, is_error=error is not None)]


def _tools(body: Mapping[str, Any]) -> frozenset[str] | None:
    names: set[str] = set()
    for tool in sequence(body.get("tools")):
        kind, name = field(tool, "type"), field(tool, "name")
        if kind in ("mcp", "namespace", "tool_search"):
            return None  # the names of these tools are known to the provider only
        names.add(str(name or kind))
    return frozenset(names)


def _previous(body: Mapping[str, Any]) -> str | None:
    conversation = body.get("conversation")
    found: str | None = (
        conversation if isinstance(conversation, str) else field(conversation, "id") or body.get("previous_response_id")
    )
    return found


def _annotate(item: Any, texts: Mapping[int, str]) -> Any:
    kind = field(item, "type")
    place = "output" if kind in _TAKE_TEXT else "content" if kind in (None, "message") else None
    if place is None or not isinstance(item, dict):
        return item
    content = item.get(place)
    if isinstance(content, list):
        return {**item, place: [*content, {"type": "input_text", "text": texts[0]}]}
    return {**item, place: f"{content}\n\n{texts[0]}" if content else texts[0]}


_TAKE_TEXT: Final = ("function_call_output", "custom_tool_call_output", "apply_patch_call_output")
"""The kinds of results whose output is text or a list of parts. Others have no place for a sentence."""

# --- replies -----------------------------------------------------------------------------------------------------


def _reply(reply: Any) -> Reply | None:
    items = field(reply, "output")
    return _reply_of(reply, items) if isinstance(items, list) else None


def _reply_of(response: Any, items: Sequence[Any]) -> Reply:
    read = [_read(item) for item in items]
    usage = field(response, "usage")
    return Reply(
        calls=tuple(call for message in read for call in message.calls),
        results=tuple(result for message in read for result in message.results),
        id=field(response, "id"),
        input_tokens=count(usage, "input_tokens"),
        output_tokens=count(usage, "output_tokens"),
        cached_tokens=count(field(usage, "input_tokens_details"), "cached_tokens"),
    )


_TEXTS: Final = ("response.output_text.delta", "response.reasoning_text.delta", "response.reasoning_summary_text.delta")


def _text(reply: Any) -> str:
    if field(reply, "type") in _TEXTS:
        return str(field(reply, "delta"))
    return "".join(plain_text(field(item, "content")) for item in sequence(field(reply, "output")))


class _Events:
    """A streamed reply. The last event has the whole of it; some servers leave out the items there."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._response: Any = None

    def add(self, event: Any) -> None:
        kind = field(event, "type")
        if kind == "response.output_item.done":
            item = field(event, "item")
            if field(item, "type") != "message":
                self._items.append(item)
        elif kind in ("response.completed", "response.incomplete"):
            self._response = field(event, "response")

    def reply(self) -> Reply:
        return _reply_of(self._response, sequence(field(self._response, "output")) or self._items)


RESPONSES = Dialect(
    messages=_messages,
    marks=lambda items: [*map(_mark, items)],
    read=_read,
    tools=_tools,
    previous=_previous,
    annotate=_annotate,
    replace=lambda body, items: {**body, "input": items},
    withdraw=lambda body: {**body, "tool_choice": "none"} if body.get("tools") else body,
    demands=demands_call,
    only=lambda body, tool: {**body, "tool_choice": {"type": "function", "name": tool}},
    reply=_reply,
    collector=_Events,
    text=_text,
    is_kept=True,
    provider="openai",
)
