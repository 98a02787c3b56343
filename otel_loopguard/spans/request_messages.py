"""Read the message list of a model request from its span of another instrumentation, as hashes.

No text is kept: each message becomes what ``ConversationTexts`` takes. The hashes are of use in this process only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from otel_loopguard.engine.history.conversation_texts import Heard, folded, user_text
from otel_loopguard.engine.history.text_blocks import blocks_at_the_end
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.spans.dialects import unique_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MESSAGES: Final = "gen_ai.input.messages"
_NUMBERED: Final = re.compile(r"(?:llm\.input_messages|gen_ai\.prompt)\.(\d{1,5})\.(?:message\.)?(.+)")
"""OpenInference and OpenLLMetry: an attribute for each part of a message."""
_PREFIXES: Final = ("llm.input_messages.", "gen_ai.prompt.")
_EVENT: Final = re.compile(r"gen_ai\.(user|assistant|tool|system)\.message")
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_MOST: Final = 10_000
"""Messages of a request that are read, and characters of the name of an attribute."""


class RecordedMessage(NamedTuple):
    """A message of a request."""

    mark: int
    """Equal for equal messages."""
    heard: Heard
    is_silent: bool
    """True for an instruction, and for a text of the model without a call."""


def is_of_message(key: str) -> bool:
    """Return True if an attribute of this name is a message of a request, or a part of one."""
    return key == MESSAGES or key.startswith(_PREFIXES)


def messages_of(
    attributes: Mapping[str, Any], events: Iterable[tuple[str, Mapping[str, Any]]] = ()
) -> tuple[RecordedMessage, ...]:
    """Return the messages of a request; none if the span does not have them."""
    found = _parsed(attributes.get(MESSAGES)) or _numbered(attributes)
    for name, of_event in events if not found else ():
        if name == _DETAILS and MESSAGES in of_event:
            found = _parsed(of_event[MESSAGES])
        elif role := _EVENT.fullmatch(name):
            found = [*(found or ()), {"role": role[1], **of_event}]
    return tuple(map(_recorded, _entries(found)))


def _entries(found: Any) -> Sequence[dict[str, Any]]:
    return [one for one in found[:_MOST] if isinstance(one, dict)] if isinstance(found, list) else []


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            pass_interrupt(error)
    return value


def _numbered(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    by_number: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if key.startswith(_PREFIXES) and (match := _NUMBERED.fullmatch(key)):
            by_number.setdefault(int(match[1]), {})[match[2]] = value
    return [by_number[number] for number in sorted(by_number)]


def _key(value: Any) -> int:
    """Return a hash of a value. One that JSON cannot have, such as a number of 100 bits, equals no other."""
    try:
        return hash(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS))
    except TypeError as error:
        pass_interrupt(error)
        return hash(unique_text())


def _recorded(message: Mapping[str, Any]) -> RecordedMessage:
    role, mark = str(message.get("role", "")), _key(message)
    texts: list[str] = []
    calls, results = [], []
    for part in _parts(message):
        kind = part.get("type")
        if kind == "tool_call":
            calls.append(_key([part.get("name"), part.get("arguments")]))
        elif kind == "tool_call_response" or role == "tool":
            results.append(_key(part.get("response", part.get("result", part.get("content")))))
        elif isinstance(text := part.get("content", part.get("text")), str):
            texts.append(text)
    text, said, user = "\n".join(filter(None, texts)), None, None
    if role in ("assistant", "model") and text:
        one = folded(text)
        said = hash(one), len(one), blocks_at_the_end(text, one)
    elif role == "user" and (text or not results):
        user = user_text(text, () if text else (mark,))
    is_silent = not (calls or results or user is not None)
    return RecordedMessage(mark, Heard(said, tuple(calls), tuple(results), user), is_silent)


def _parts(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of a message as the conventions have them: of texts, tool calls and their results."""
    for key in ("parts", "content"):
        value = _parsed(message.get(key))
        if isinstance(value, list):
            yield from (part for part in value if isinstance(part, dict))
        elif isinstance(value, str):
            yield {"content": value}
    calls: dict[str, dict[str, Any]] = {}
    for key, value in message.items():
        if key.startswith("contents.") and key.endswith(".text"):
            yield {"content": value}
        elif key.startswith("tool_calls.") and key.endswith((".name", ".arguments")):
            number, _, field = key.removeprefix("tool_calls.").partition(".")
            calls.setdefault(number, {"type": "tool_call"})[field.rpartition(".")[2]] = value
    yield from calls.values()
    for call in _entries(_parsed(message.get("tool_calls"))):
        yield {"type": "tool_call", **call.get("function", call)}
