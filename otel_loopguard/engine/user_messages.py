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
    """A message of the user to a running turn. ``bool(message)`` is True if the turn accepted it."""

    __slots__ = ("_queue", "delivered", "forgotten", "id", "is_own", "stop", "store_epoch", "stored", "text")

    def __init__(self, text: str, queue: UserMessages | None = None, *, stop: bool = False, number: int = 0) -> None:
        self.text = text
        self.id = number
        """Identifies a message of a shared turn; 0 in others."""
        self.stop = stop
        """True if all further tool calls of the turn are refused with it."""
        self.stored = False
        """True if the store of a shared turn has it: it is delivered, whatever becomes of this process."""
        self.delivered = False
        """True if the model has it, with a result or in a refusal."""
        self.forgotten = False
        """True if another turn has replaced its own, or the store has lost it: the model may have read it, or not."""
        self.is_own = False
        """True if, in a shared turn, this process alone may deliver it."""
        self.store_epoch: str | None = None
        """The epoch of the store in which it was sent there; None if no other process can have it."""
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
        """True if no tool call will deliver it any more: its turn is over, there was none, or it is ``forgotten``."""
        queue = None if self._queue is None else self._queue()
        return not self.delivered and (queue is None or queue.closed or self.forgotten)

    def __bool__(self) -> bool:
        return self.taken

    def __repr__(self) -> str:
        return f"UserMessage(taken={self.taken}, returned={self.returned})"


Notes: TypeAlias = "tuple[UserMessage | str, ...]"
"""Texts for the model with a result: messages of the user, and sentences of the guard."""


class UserMessages:
    """The messages of the user that wait for the model, in one queue for a turn and its nested turns.

    Each of these turns may deliver them; the outermost one closes the queue.
    """

    __slots__ = ("__weakref__", "_waiting", "closed", "done", "process", "stops")

    def __init__(self, process: int = 0) -> None:
        self._waiting: deque[UserMessage | str] = deque()
        self.stops: list[UserMessage] = []
        """The messages to stop. While there are any, every call is refused with them."""
        self.closed = False
        self.process = process
        """The number of this process in a shared turn; 0 in others."""
        self.done: dict[int, int] = {}
        """By the id of a message of a shared turn: the process that delivers it; 0 if the store has lost it."""

    def add(self, text: str, *, stop: bool) -> UserMessage:
        """Queue a new message, and return it. It is False, and not queued, if the turn is over."""
        if self.closed:
            return UserMessage(text, stop=stop)
        message = UserMessage(text, self, stop=stop)
        return message if self.put(message) else UserMessage(text, stop=stop)

    def put(self, message: UserMessage) -> bool:
        """Queue a message that was made for this queue. Return False if the turn is over."""
        self._waiting.append(message)
        if self.closed and self._remove(message):  # closed in between, and ``close`` has not returned it
            return False
        if message.stop:
            self.stops.append(message)
        return True

    @property
    def stop_is_delivered(self) -> bool:
        """True if the model has every message to stop."""
        return all(message.delivered for message in self.stops)

    def take(self, *, claims: bool = True) -> Notes:
        """Take the waiting notes out, and return them. They count as delivered unless they are put back.

        ``claims=False`` leaves the messages that another process may deliver. Messages to stop are taken all the same:
        each process has a copy of them.
        """
        taken = self._drained() if claims else tuple(filter(self._remove, filter(_needs_no_claim, list(self._waiting))))
        for note in taken:
            if isinstance(note, UserMessage):
                note.delivered = True
                self._note_done(note.id, self.process)
        return taken

    def _remove(self, note: UserMessage | str) -> bool:
        """Remove a note. Return False if it was taken in between."""
        with suppress(ValueError):
            self._waiting.remove(note)
            return True
        return False

    def _drained(self) -> Notes:
        """Take out all notes, one by one: a message that is added meanwhile must not be lost."""
        taken: list[UserMessage | str] = []
        with suppress(IndexError):  # another turn of the tree takes them, too
            for _ in range(len(self._waiting)):
                taken.append(self._waiting.popleft())  # noqa: PERF401 - what was taken must be kept if the next is gone
        return tuple(taken)

    def put_back(self, notes: Notes) -> None:
        """Queue notes again that could not be delivered, before all others."""
        for note in notes:
            if isinstance(note, UserMessage):
                note.delivered = False
                if not note.is_own:
                    self.done.pop(note.id, None)
        if not self.closed:
            self._waiting.extendleft(reversed(notes))

    def forget(self, *, own: bool) -> None:
        """Drop the messages of a turn that another one has replaced. No stop holds any more.

        ``own=False`` keeps the messages that this process alone may deliver.
        """
        for message in self._messages():
            if own or not message.is_own:
                self._remove(message)
        self.stops = []

    def after_fork(self, process: int = 0) -> None:
        """Empty the queue in a child process: the parent delivers what waited. ``process`` is the child's number."""
        self._waiting, self.process = deque(), process

    def close(self) -> list[str]:
        """Close the queue. Return the texts of the user's messages that the model never read."""
        self.closed = True
        return [message.text for message in self._drained() if isinstance(message, UserMessage)]

    # --- messages of a shared turn -----------------------------------------------------------------------------------
    #
    # The store gives each message to one process, which delivers it: only a write that the store has confirmed takes a
    # message that other processes may have.

    def offer(self, message: UserMessage) -> None:
        """Queue a message, unless it waits already or is in ``done``."""
        if message.stop and all(one.id != message.id for one in self.stops):
            self.stops.append(message)
        if not (message.id in self.done or self.has(message.id)):
            self._waiting.append(message)

    def keep(self, message: UserMessage) -> None:
        """Queue a message that this process alone may deliver."""
        self.offer(message)
        message.is_own = True
        self._note_done(message.id, self.process)

    def release(self) -> list[UserMessage]:
        """Take out, and return, the messages that this process alone may deliver, so that all processes may again."""
        released = [one for one in self._messages() if one.is_own and self._remove(one)]
        for message in released:
            message.is_own = message.stored = False
            message.store_epoch = None
            self.done.pop(message.id, None)
        return released

    def has(self, number: int) -> bool:
        """Return True if the message of this id waits."""
        return any(one.id == number for one in self._messages())

    @property
    def has_shared(self) -> bool:
        """True if a message waits that another process may deliver."""
        return not all(map(_needs_no_claim, list(self._waiting)))

    def taker(self, number: int) -> int | None:
        """Return the process that delivers the message of this id; 0 if the message is lost, None if it waits."""
        return None if self.has(number) else self.done.get(number)

    def to_list(self) -> list[Any]:
        """Return as plain values: the messages that any process may deliver, those to stop, and ``done``."""
        waiting = [[one.id, one.text, one.stop] for one in self._messages() if not one.is_own]
        return [waiting, [[one.id, one.text] for one in self.stops], list(self.done.items())]

    def adopt(self, waiting: list[Any], stops: list[Any], done: list[Any], *, has_lost: bool = False) -> int:
        """Take over what ``to_list`` returned in the process that wrote last.

        A message that it lacks waits here no longer, except one to stop and one of this process alone. ``has_lost``:
        the store has lost a write since the last time, so such a message may have been delivered, and is marked lost.
        Return how many lost messages the store had given to this process, which did not know: no sender can see that.
        """
        held = {one.id: one for one in (*self.stops, *self._messages())}
        own = {number: process for number, process in list(self.done.items()) if process in (0, self.process)}
        self.done = dict(done) | own
        given = {number for number, process in done if process == self.process} - own.keys()
        given -= {one.id for one in self.stops}
        lost = given if has_lost else set()
        if has_lost:
            here = {one.id for one in self._messages() if one.store_epoch is not None and not _needs_no_claim(one)}
            here -= {number for number, *_ in waiting}
            self.done |= dict.fromkeys((here - self.done.keys()) | given, 0)
        for message in self._messages():
            if message.id in given - lost:
                message.is_own = True
            elif not message.is_own and (message.id in self.done or not message.stop):
                self._remove(message)
        for number, text, stop in (*waiting, *([number, text, True] for number, text in stops)):
            message = held.setdefault(number, UserMessage(text, self, stop=stop, number=number))
            message.store_epoch = message.store_epoch or ""
            message.delivered = bool(self.done.get(number))
            self.offer(message)
        return len(lost)

    def _messages(self) -> list[UserMessage]:
        """Return the waiting notes that are messages of the user."""
        return [note for note in list(self._waiting) if isinstance(note, UserMessage)]

    def _note_done(self, number: int, process: int) -> None:
        if number:
            self.done[number] = process
        for oldest in list(self.done)[:-_MOST_DONE]:
            self.done.pop(oldest, None)


def _needs_no_claim(note: UserMessage | str) -> bool:
    return isinstance(note, str) or note.is_own or note.stop


NO_MESSAGES = UserMessages()
"""The closed queue of all turns that are over and never had a message."""
NO_MESSAGES.close()


def note_texts(notes: Iterable[UserMessage | str]) -> list[str]:
    """Return the texts of notes."""
    return [note.text if isinstance(note, UserMessage) else note for note in notes]
