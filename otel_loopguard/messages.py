"""Messages of the user to a turn that runs: delivered to the model once, in order, or given back."""

from __future__ import annotations

import weakref
from collections import deque
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class UserMessage:
    """A message of the user to a running turn. True if a turn accepted it."""

    __slots__ = ("_queue", "delivered", "stop", "text")

    def __init__(self, text: str, queue: UserMessages | None = None, *, stop: bool = False) -> None:
        self.text = text
        self.stop = stop
        """Refuse all further tool calls of the turn."""
        self.delivered = False
        """The model has it, with a result or in a refusal."""
        self._queue = None if queue is None else weakref.ref(queue)

    @property
    def taken(self) -> bool:
        """True if a turn accepted it."""
        return self._queue is not None

    @property
    def returned(self) -> bool:
        """True if no tool call will deliver it any more: its turn is over or forgotten, or there was none."""
        queue = None if self._queue is None else self._queue()
        return not self.delivered and (queue is None or queue.closed)

    def __bool__(self) -> bool:
        return self.taken

    def __repr__(self) -> str:
        return f"UserMessage(taken={self.taken}, returned={self.returned})"


Notes: TypeAlias = "tuple[UserMessage | str, ...]"
"""Texts for the model with a result: messages of the user, and sentences of the guard."""


class UserMessages:
    """The queue of messages that wait for the model. Any turn of a tree may deliver them; the outermost closes it.

    Adding a message takes no lock: a signal handler may add one, and its own thread may hold any lock.
    """

    __slots__ = ("__weakref__", "_lock", "_waiting", "closed", "stops")

    def __init__(self) -> None:
        self._lock = RLock()
        """Taken last: no other lock is taken while it is held."""
        self._waiting: deque[UserMessage | str] = deque()
        self.stops: list[UserMessage] = []
        """If there are any, every further call is refused with them."""
        self.closed = False

    def add(self, text: str, *, stop: bool) -> UserMessage:
        """Queue a message. It is not accepted if the turn is over."""
        if self.closed:
            return UserMessage(text, stop=stop)
        message = UserMessage(text, self, stop=stop)
        return message if self.put(message) else UserMessage(text, stop=stop)

    def put(self, message: UserMessage) -> bool:
        """Queue a message that was made for this queue. Return False if the turn is over."""
        self._waiting.append(message)
        if self._closed_while_adding(message):
            return False
        if message.stop:
            self.stops.append(message)
        return True

    def _closed_while_adding(self, message: UserMessage) -> bool:
        """Return True if the queue was closed in between and ``close`` did not return this message."""
        if self.closed:
            with suppress(ValueError):
                self._waiting.remove(message)
                return True
        return False

    @property
    def stop_is_delivered(self) -> bool:
        """True if the model has every message to stop."""
        return all(message.delivered for message in self.stops)

    def take(self) -> Notes:
        """Take the waiting messages. They count as delivered unless they are put back."""
        with self._lock:
            taken = self._drained()
            _mark(taken, delivered=True)
        return taken

    def _drained(self) -> Notes:
        """Take one by one: a message may be added at any moment, and must not be lost."""
        waiting = self._waiting
        return tuple(waiting.popleft() for _ in range(len(waiting)))

    def put_back(self, notes: Notes) -> None:
        """Return notes that could not be delivered. They come first the next time."""
        with self._lock:
            _mark(notes, delivered=False)
            if not self.closed:
                self._waiting.extendleft(reversed(notes))

    def forget(self) -> None:
        """Forget all messages: those of a shared turn are in its log."""
        with self._lock:
            self._waiting.clear()
            self.stops = []

    def to_list(self, seal: Callable[[str], str]) -> list[list[Any]]:
        """Return the messages that wait, and those to stop, as plain values with sealed texts."""
        waiting = list(self._waiting)
        delivered = [message for message in self.stops if message not in waiting]
        notes = [note if isinstance(note, UserMessage) else UserMessage(note) for note in (*delivered, *waiting)]
        return [[seal(note.text), note.stop, number < len(delivered)] for number, note in enumerate(notes)]

    def restore(self, messages: list[list[Any]], unseal: Callable[[str], str | None]) -> None:
        """Queue the messages that ``to_list`` returned."""
        for sealed, stop, delivered in messages:
            text = unseal(sealed)
            if text is None:
                continue
            message = UserMessage(text, self, stop=stop)
            if delivered:
                message.delivered = True
                self.stops.append(message)
            else:
                self.put(message)

    def after_fork(self) -> None:
        """Leave the waiting messages to the parent process, which delivers them."""
        self._lock = RLock()
        self._waiting = deque()

    def close(self) -> list[str]:
        """Close the queue. Return the texts that the model never read."""
        with self._lock:
            self.closed = True
            left = self._drained()
        return [message.text for message in left if isinstance(message, UserMessage)]


NO_MESSAGES = UserMessages()
"""The closed queue of all turns that are over and never had a message."""
NO_MESSAGES.close()


def note_texts(notes: Iterable[UserMessage | str]) -> list[str]:
    """Return the texts of notes."""
    return [note.text if isinstance(note, UserMessage) else note for note in notes]


def _mark(notes: Notes, *, delivered: bool) -> None:
    for note in notes:
        if isinstance(note, UserMessage):
            note.delivered = delivered
