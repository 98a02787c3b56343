"""A conversation as a model reads it, whatever the API it came through."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
KEY = re.compile(r"\btask-[A-Za-z0-9]+")


class Call(NamedTuple):
    """A tool call that the model writes. The server gives it its id."""

    name: str
    arguments: dict[str, Any]
    id: str = ""


class Result(NamedTuple):
    """A tool result that the model reads."""

    id: str
    text: str


class Message(NamedTuple):
    """One message: its text, the calls that it makes or the results that it brings."""

    role: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()


class Reply(NamedTuple):
    """What the model answers: a text, calls, or both."""

    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Asked:
    """A well-formed request: all that the model reads, also what the server has kept for it."""

    messages: tuple[Message, ...]
    tools: frozenset[str] = frozenset()
    choice: str = "auto"
    """``none``, ``auto``, ``required``, or the name of the one tool that is demanded."""
    stream: bool = False
    number: int = 0
    """This is the nth request of its conversation, from 1; a request that was rejected or failed does not count."""

    @property
    def key(self) -> str:
        """The first word like ``task-17`` in the conversation: it tells conversations apart."""
        return next((found[0] for one in self.messages if (found := KEY.search(one.text))), "")

    @property
    def may_call(self) -> bool:
        """True if the request lets the model call tools."""
        return bool(self.tools) and self.choice != "none"

    @property
    def results(self) -> list[Result]:
        """All tool results that the model can read, in order."""
        return [result for message in self.messages for result in message.results]

    def reads(self, text: str) -> bool:
        """True if the text is anywhere in the conversation."""
        return any(text in one.text or any(text in result.text for result in one.results) for one in self.messages)

    @property
    def tokens(self) -> int:
        """The price of reading: a token for each begun four characters."""
        texts = [one.text for one in self.messages] + [result.text for result in self.results]
        calls = [f"{call.name}{call.arguments}" for one in self.messages for call in one.calls]
        return sum(tokens(text) for text in (*texts, *calls))


def tokens(text: str) -> int:
    """The price of a text."""
    return -(-len(text) // 4)


def price(reply: Reply) -> int:
    """The tokens that a reply costs."""
    return tokens(reply.text) + sum(tokens(f"{call.name}{call.arguments}") for call in reply.calls)


class RejectedError(Exception):
    """The server rejects a request, in the words of the real service."""

    def __init__(self, message: str, *, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code


def drawn(kind: str, name: str, at: int) -> str:
    """Return the id of a call, by the name of its reply. It ends as one that a server draws, and is always the same."""
    key, _, number = name.rpartition("_")
    return f"{kind}_{key}_{blake2b(f'{number}_{at}'.encode(), digest_size=4).hexdigest()}"


def demand(condition: object, message: str, *, status: int = 400, code: str | None = None) -> None:
    """Reject the request unless the condition holds."""
    if not condition:
        raise RejectedError(message, status=status, code=code)


def only(given: dict[str, Any], known: frozenset[str] | set[str], message: str) -> None:
    """Reject keys that the service does not know; ``{}`` in the message is the first of them."""
    unknown = [name for name in given if name not in known]
    if unknown:
        raise RejectedError(message.format(unknown[0]))


def pieces(text: str, size: int = 12) -> list[str]:
    """A text in the pieces in which it is streamed."""
    return [text[start : start + size] for start in range(0, len(text), size)]
