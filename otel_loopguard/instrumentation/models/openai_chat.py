"""OpenAI's chat completions, which many other providers copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.content import arguments_of
from otel_loopguard.instrumentation.model_api import Dialect
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.turns.messages import Message, Reply, WrittenCall, WrittenResult, mark_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def _messages(body: Mapping[str, Any]) -> Sequence[Any]:
    messages: Sequence[Any] = body.get("messages") or ()
    return messages


def _marks(messages: Sequence[Any]) -> list[int]:
    try:  # a message with calls is known by the results that follow it
        return [hash((one.get("role"), one.get("tool_call_id"), one.get("content"))) for one in messages]
    except TypeError as error:  # a content is in parts
        pass_interrupt(error)
        return [mark_of((one.get("role"), one.get("tool_call_id"), one.get("content"))) for one in messages]


def _read(message: Any) -> Message:
    role = message.get("role")
    if role == "tool":
        return Message(results=(WrittenResult(message.get("tool_call_id"), message.get("content")),))
    if role == "assistant":
        return Message(calls=_calls(message.get("tool_calls")))
    return Message(by_user=role == "user", text=message.get("content"))


def _calls(written: Any) -> tuple[WrittenCall, ...]:
    return tuple(
        WrittenCall(call.get("id"), call["function"]["name"], arguments_of(call["function"].get("arguments")))
        if "function" in call
        else WrittenCall(call.get("id"), call["custom"]["name"], call["custom"].get("input"))
        for call in written or ()
    )


def _tools(body: Mapping[str, Any]) -> frozenset[str] | None:
    names = [(tool.get("function") or tool.get("custom") or {}).get("name") for tool in body.get("tools") or ()]
    return frozenset(name for name in names if name) if all(names) else None


def _annotate(message: Any, texts: Mapping[int, str]) -> Any:
    text, content = texts[0], message.get("content")
    if isinstance(content, list):
        return {**message, "content": [*content, {"type": "text", "text": text}]}
    return {**message, "content": f"{content}\n\n{text}" if content else text}


def _reply(reply: Any) -> Reply | None:
    choices = getattr(reply, "choices", None)
    if choices is None:
        return None
    usage = getattr(reply, "usage", None)
    return Reply(
        calls=tuple(
            call for choice in choices for call in _calls_of_object(getattr(choice.message, "tool_calls", None))
        ),
        input_tokens=getattr(usage, "prompt_tokens", None),
        output_tokens=getattr(usage, "completion_tokens", None),
    )


def _calls_of_object(calls: Any) -> tuple[WrittenCall, ...]:
    found = []
    for call in calls or ():
        function = getattr(call, "function", None)
        if function is not None:
            found.append(WrittenCall(call.id, function.name, arguments_of(function.arguments)))
        elif getattr(call, "custom", None) is not None:
            found.append(WrittenCall(call.id, call.custom.name, call.custom.input))
    return tuple(found)


class _Pieces:
    """The calls of a streamed reply, by their index: the arguments come in pieces."""

    def __init__(self) -> None:
        self._calls: dict[tuple[int, int], list[Any]] = {}
        self._usage: Any = None

    def add(self, chunk: Any) -> None:
        if getattr(chunk, "usage", None) is not None:
            self._usage = chunk.usage
        for choice in chunk.choices or ():
            for call in getattr(choice.delta, "tool_calls", None) or ():
                function = call.function
                parts = self._calls.setdefault((choice.index, call.index), [None, "", []])
                parts[0] = call.id or parts[0]
                if function is not None:
                    parts[1] = function.name or parts[1]
                    parts[2].append(function.arguments or "")

    def reply(self) -> Reply:
        return Reply(
            calls=tuple(
                WrittenCall(call_id, name, arguments_of("".join(pieces)))
                for call_id, name, pieces in self._calls.values()
                if name
            ),
            input_tokens=getattr(self._usage, "prompt_tokens", None),
            output_tokens=getattr(self._usage, "completion_tokens", None),
        )


CHAT = Dialect(
    messages=_messages,
    marks=_marks,
    read=_read,
    tools=_tools,
    previous=lambda body: None,
    annotate=_annotate,
    replace=lambda body, messages: {**body, "messages": messages},
    withdraw=lambda body: {**body, "tool_choice": "none"},
    reply=_reply,
    collector=_Pieces,
)
