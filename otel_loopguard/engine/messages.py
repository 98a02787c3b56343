"""Messages of the user to a turn that runs: delivered to the model once, in order, or given back.

No lock: each change is one operation of a deque or a dictionary, because a signal handler may add a message at any
instruction, and turns of one tree deliver from one queue.
"""

from __future__ import annotations

import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_DONE = 256


class UserMessage:
    """A message of the user to a running turn. True if a turn accepted it."""

    __slots__ = ("_queue", "delivered", "forgotten", "id", "stop", "stored", "text")

    def __init__(self, text: str, queue: UserMessages | None = None, *, stop: bool = False, number: int = 0) -> None:
        self.text = text
        self.id = number
        """Identifies a message of a shared turn; 0 in others."""
        self.stop = stop
        """Refuse all further tool calls of the turn."""
        self.stored = False
        """The store of a shared turn has it: it will be delivered, whatever becomes of this process."""
        self.delivered = False
        """The model has it, with a result or in a refusal."""
        self.forgotten = False
        """Another turn has replaced the one that it was for."""
        self._queue = None if queue is None else weakref.ref(queue)

    @property
    def taken(self) -> bool:
        """True if a turn accepted it."""
        return self._queue is not None

    @property
    def status(self) -> str:
        """Return "pending" (this process alone has it), "stored" (all processes of a shared turn), or "delivered"."""
        if self.delivered:
            return "delivered"
        return "stored" if self.stored else "pending"

    @property
    def returned(self) -> bool:
        """True if no tool call will deliver it any more: its turn is over or forgotten, or there was none."""
        queue = None if self._queue is None else self._queue()
        return not self.delivered and (queue is None or queue.closed or self.forgotten)

    def __bool__(self) -> bool:
        return self.taken

    def __repr__(self) -> str:
        return f"UserMessage(taken={self.taken}, returned={self.returned})"


Notes: TypeAlias = "tuple[UserMessage | str, ...]"
"""Texts for the model with a result: messages of the user, and sentences of the guard."""


class UserMessages:
    """The queue of messages that wait for the model. Any turn of a tree may deliver them; the outermost closes it."""

    __slots__ = ("__weakref__", "_waiting", "closed", "done", "stops")

    def __init__(self) -> None:
        self._waiting: deque[UserMessage | str] = deque()
        self.stops: list[UserMessage] = []
        """If there are any, every further call is refused with them."""
        self.closed = False
        self.done: dict[int, None] = {}
        """The ids of messages of a shared turn that were delivered."""

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

    @property
    def is_empty(self) -> bool:
        """True if no message waits."""
        return not self._waiting

    def __contains__(self, note: object) -> bool:
        return note in self._waiting

    def take(self) -> Notes:
        """Take the waiting messages. They count as delivered unless they are put back."""
        taken = self._drained()
        for note in taken:
            if isinstance(note, UserMessage):
                note.delivered = True
                self._note_done((note.id,))
        return taken

    def _drained(self) -> Notes:
        """Take one by one: a message may be added at any moment, and must not be lost."""
        taken: list[UserMessage | str] = []
        with suppress(IndexError):  # another turn of the tree takes them, too
            for _ in range(len(self._waiting)):
                taken.append(self._waiting.popleft())  # noqa: PERF401 - what was taken must be kept if the next is gone
        return tuple(taken)

    def put_back(self, notes: Notes) -> None:
        """Return notes that could not be delivered. They come first the next time."""
        for note in notes:
            if isinstance(note, UserMessage):
                note.delivered = False
                self.done.pop(note.id, None)
        if not self.closed:
            self._waiting.extendleft(reversed(notes))

    def forget(self) -> None:
        """Forget all messages: another turn begins in the cell of a shared turn."""
        self._waiting.clear()
        self.stops = []

    def after_fork(self) -> None:
        """Leave the waiting messages to the parent process, which delivers them."""
        self._waiting = deque()

    def close(self) -> list[str]:
        """Close the queue. Return the texts that the model never read."""
        self.closed = True
        return [message.text for message in self._drained() if isinstance(message, UserMessage)]

    # --- copies of a shared turn -------------------------------------------------------------------------------------

    def to_list(self) -> list[Any]:
        """Return the messages that wait, those to stop, and the ids of those that were delivered, as plain values."""
        waiting = [note if isinstance(note, UserMessage) else UserMessage(note) for note in list(self._waiting)]
        stops = [[one.id, one.text] for one in self.stops]
        return [[[one.id, one.text, one.stop] for one in waiting], stops, list(self.done)]

    def merge(self, values: list[Any]) -> None:
        """Join this copy with what ``to_list`` of another one returned. What either delivered waits no more."""
        waiting, stops, done = values
        self._note_done(done)
        mine = {note.id: note for note in list(self._waiting) if isinstance(note, UserMessage)}
        stopping = {one.id: one for one in self.stops}
        for number, text, stop in [*waiting, *([number, text, True] for number, text in stops)]:
            one = mine.get(number) or stopping.get(number) or UserMessage(text, self, stop=stop, number=number)
            self._join(one, mine, stopping, waits=[number, text, stop] in waiting)
        for note in list(self._waiting):
            if isinstance(note, UserMessage) and note.id in self.done:
                with suppress(ValueError):  # it was taken in between
                    self._waiting.remove(note)

    def _join(
        self, one: UserMessage, mine: dict[int, UserMessage], stopping: dict[int, UserMessage], *, waits: bool
    ) -> None:
        if one.stop and one.id not in stopping:
            stopping[one.id] = one
            self.stops.append(one)
        if one.id in self.done:
            one.delivered = True
        elif waits and one.id not in mine:
            mine[one.id] = one
            self._waiting.append(one)

    def _note_done(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number:
                self.done[number] = None
        while len(self.done) > _MOST_DONE:
            self.done.pop(next(iter(self.done)), None)


NO_MESSAGES = UserMessages()
"""The closed queue of all turns that are over and never had a message."""
NO_MESSAGES.close()


def note_texts(notes: Iterable[UserMessage | str]) -> list[str]:
    """Return the texts of notes."""
    return [note.text if isinstance(note, UserMessage) else note for note in notes]
