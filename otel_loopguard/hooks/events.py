"""The words for a coding agent's hooks, the same for every program: an event that is told, and the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from otel_loopguard.engine.vocabulary import Outcome, ToolCall


class Place(NamedTuple):
    """The agent that a hook is about, and its turn."""

    session: str
    agent: str = ""
    """The program's id of the sub-agent; empty for the main one, and where the program does not say."""
    turn: str = ""
    """The program's id of the user's message; empty if it has none, so that a ``Prompt`` begins a turn."""


class Before(NamedTuple):
    """A tool is about to run."""

    place: Place
    call: ToolCall


class After(NamedTuple):
    """A tool has run, or failed."""

    place: Place
    call: ToolCall
    outcome: Outcome


class MessageOver(NamedTuple):
    """All calls of one message of the model have ended. Those of unknown tools are seen here only.

    They have no ``known_tools``: an empty collection, not None.
    """

    place: Place
    calls: tuple[tuple[ToolCall, Outcome], ...]


class Prompt(NamedTuple):
    """The user has sent a message."""

    place: Place


class Choosing(NamedTuple):
    """The program is about to ask the model, and its tools can be withdrawn for this request."""

    place: Place


class Stopping(NamedTuple):
    """The agent has answered, or was stopped."""

    place: Place
    again: str | None = None
    """The answer, if a hook of the user did not accept the one before, and made the agent go on; else None."""
    so_far: str = ""
    """All answers to the user's message, where the program tells them as one text; ``again`` is the same then."""


class SessionOver(NamedTuple):
    """The session has ended, with all its agents."""

    place: Place


Event: TypeAlias = Before | After | MessageOver | Prompt | Choosing | Stopping | SessionOver


class Answer(NamedTuple):
    """The answer to a hook. An empty one leaves everything as it is."""

    refusal: str = ""
    """The text that the model reads instead of the tool's result."""
    sentence: str = ""
    """The text that the model reads beside the tool's result."""
    ends: bool = False
    """True if the run is to end."""
    withdraws: bool = False
    """True if the request is to be made without tools."""
