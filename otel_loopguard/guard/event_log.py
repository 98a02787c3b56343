"""The interface of a shared log: the events of one turn, in one order, for all processes that work on the turn.

Every change of a shared turn is an event that is appended here. Each process folds the events into its copy of the
turn's history, in the order of the log, so that all copies become equal. An append never conflicts with another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    Op: TypeAlias = "tuple[bytes, bytes]"
    """The identity of an event, and the event."""


class Entry(NamedTuple):
    """One event in a log."""

    time: float
    """Seconds since the epoch at the append, by the clock of the server."""
    op: bytes
    """The identity of the event. A log takes each once."""
    data: bytes


class LogReply(NamedTuple):
    """The part of a log that the caller has not read."""

    epoch: bytes
    """Identifies the log. A log that was lost and begun again has another one; empty if the server has no log."""
    snapshot: bytes | None
    """The state up to ``base``, if the caller has not read that far, or has read another log."""
    base: int
    """The position of the snapshot: the entries up to it are gone."""
    entries: list[Entry]
    """The entries after the caller's position, or after ``base``; those that it appended included."""


class EventLog(Protocol):
    """The logs of all shared turns. No method raises. Each log is known by a key that reveals nothing.

    The answer None means that the log cannot be used now: the caller goes on without it.
    """

    def append(
        self, key: str, ops: Sequence[Op], *, epoch: bytes, seen: int, snapshot: tuple[int, bytes] | None = None
    ) -> LogReply | None:
        """Append events that are not in the log yet, and return those that the caller has not read.

        ``epoch`` and ``seen`` are those of the caller's copy; empty and 0 if it has none. ``snapshot`` is the state up
        to a position; the entries up to there may be dropped.
        """

    async def aappend(
        self, key: str, ops: Sequence[Op], *, epoch: bytes, seen: int, snapshot: tuple[int, bytes] | None = None
    ) -> LogReply | None:
        """Do the same as ``append`` without blocking the event loop."""

    def send_later(self, key: str, ops: Sequence[Op], *, begins: bool = True) -> None:
        """Append events from another thread, for code that must not wait. ``begins``: also if the server has no log."""

    def seal(self, text: str) -> bytes:
        """Encrypt a message of the user, which is kept in the log until it is delivered."""

    def unseal(self, sealed: bytes) -> str | None:
        """Decrypt a message; None if it cannot be read."""
