"""The messages of a conversation with a model, in one form for all APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard.engine.history.conversation_texts import Heard, folded, user_text
from otel_loopguard.engine.history.text_blocks import blocks_at_the_end

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from otel_loopguard.engine.history.conversation_texts import UserText


class WrittenCall(NamedTuple):
    """A tool call that the model wrote."""

    id: str | None
    """None if the API has no ids of calls: its results come in the order of the calls."""
    name: str
    arguments: Any = None


class WrittenResult(NamedTuple):
    """The result of a tool call as the model reads it."""

    id: str | None
    content: Any = None
    is_error: bool | None = None
    """True for an error, False for none; None if the API does not tell: then the text decides."""
    name: str | None = None
    """The name of the tool; None if the API does not repeat it."""


class Message(NamedTuple):
    """One entry of a conversation."""

    calls: tuple[WrittenCall, ...] = ()
    results: tuple[WrittenResult, ...] = ()
    by_user: bool = False
    """True if it has text in the user's role, which the program itself may have written."""
    text: Any = None
    """The text in the user's role, or the list of its parts."""
    said: Any = None
    """The text of the model, or the list of its parts; None if it is no message of the model, or has no text."""


class Reply(NamedTuple):
    """The model's response to a request. Tokens are None if the response does not count them."""

    calls: tuple[WrittenCall, ...] = ()
    results: tuple[WrittenResult, ...] = ()
    """Results of the calls that the provider ran by itself."""
    id: str | None = None
    """The id by which a later request continues; None if the provider keeps no conversation."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """The part of the input that came from a prompt cache."""
    model: str | None = None
    """The name of the model that has answered, where the request does not name one."""


NO_MESSAGE = Message()


def plain_text(value: Any) -> str:
    """Return a text, or those of its parts that have one, joined."""
    return value if isinstance(value, str) else "\n".join(filter(None, map(_text_of, _parts(value))))


def keys_of_user(value: Any) -> UserText:
    """Return the keys of a user's message, with its parts that have no text, such as pictures."""
    return user_text(plain_text(value), [mark_of(part) for part in _parts(value) if not _text_of(part)])


def heard_in(message: Message) -> Heard:
    """Return what the texts of a conversation take of a message."""
    text, said = plain_text(message.said), None
    if text:
        one = folded(text)
        said = hash(one), len(one), blocks_at_the_end(text, one)
    user = keys_of_user(message.text) if message.by_user else None
    return Heard(said, message.calls, [mark_of(result.content) for result in message.results], user)


def _parts(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _text_of(part: Any) -> str:
    text = part if isinstance(part, str) else part.get("text") if isinstance(part, dict) else getattr(part, "text", "")
    return text if isinstance(text, str) else ""


def mark_of(value: Any) -> int:
    """Return a hash of a JSON value, without its ``cache_control`` marks, which move from request to request.

    Python keeps the hash of a text in the text object, so a text that comes again costs nothing.
    """
    return hash(value if type(value) is str or value is None else unmarked(value))


def unmarked(value: Any) -> Hashable:
    """Return a JSON value in a hashable form, without its ``cache_control`` marks.

    A list of one text becomes the text: clients write the list where they mark the text for a cache.
    """
    if type(value) is list and len(value) == 1 and type(value[0]) is dict:
        part = value[0]
        if part.get("type") == "text" and part.keys() <= _OF_TEXT:
            value = part.get("text")
    return _hashable(value)


_CACHE_MARK: Final = "cache_control"
_OF_TEXT: Final = {"type", "text", _CACHE_MARK}


def _hashable(value: Any) -> Hashable:
    if isinstance(value, dict):
        if _CACHE_MARK in value:
            value = {key: part for key, part in value.items() if key != _CACHE_MARK}
        parts = list(value)
        for part in value.values():
            parts.append(part if type(part) is str else _hashable(part))  # noqa: PERF401 - a comprehension costs a frame
        return tuple(parts)
    if isinstance(value, (list, tuple)):
        return tuple([part if type(part) is str else _hashable(part) for part in value])
    if value is None or isinstance(value, (str, int, float, bytes)):
        return value
    # An object of a client. A program may make it again for each request, and an iterator belongs to the program.
    return _hashable(getattr(value, "__dict__", type(value).__name__))
