"""The messages of a model's conversation in the words that all APIs share."""

from __future__ import annotations

from typing import Any, NamedTuple


class WrittenCall(NamedTuple):
    """A tool call that the model wrote."""

    id: str | None
    """None in APIs without ids of calls: calls and results are in the same order then."""
    name: str
    arguments: Any = None


class WrittenResult(NamedTuple):
    """The result of a tool call as the model reads it."""

    id: str | None
    content: Any = None
    is_error: bool | None = None
    """None if the API has no flag for errors: then the text decides."""
    name: str | None = None
    """The name of the tool, where the API repeats it."""


class Message(NamedTuple):
    """One entry of a conversation."""

    calls: tuple[WrittenCall, ...] = ()
    results: tuple[WrittenResult, ...] = ()
    by_user: bool = False
    """It has text in the user's role. A program may have written it: only its place shows that."""
    text: Any = None
    """That text, or its parts."""


class Reply(NamedTuple):
    """The response to a request."""

    calls: tuple[WrittenCall, ...] = ()
    results: tuple[WrittenResult, ...] = ()
    """Results of calls that the provider itself ran."""
    id: str | None = None
    """The id that a later request may continue from, where the provider keeps the conversation."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """The part of the input that came from a prompt cache."""


NO_MESSAGE = Message()


def mark_of(value: Any) -> int:
    """Hash a JSON value, without the marks of a prompt cache, which move from request to request.

    The hash of a text is kept in the text object, so a text that comes again costs nothing.
    """
    return hash(value if type(value) is str else _hashable(value))


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((key, _hashable(part)) for key, part in value.items() if key != "cache_control")
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    return value
