"""What the user says while a turn runs: delivered to the model once, in order, or given back."""

from __future__ import annotations

import weakref
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable


class UserMessage:
    """Something a user said into a running turn. True if there was a turn that took it."""

    __slots__ = ("_said", "delivered", "stop", "text")

    def __init__(self, text: str, said: UserMessages | None = None, *, stop: bool = False) -> None:
        self.text = text
        self.stop = stop
        """Whether no further tool of the turn is to run."""
        self.delivered = False
        """Whether the model has it, beside a result or in a refusal."""
        self._said = None if said is None else weakref.ref(said)

    @property
    def taken(self) -> bool:
        """Whether there was a turn that took it."""
        return self._said is not None

    @property
    def returned(self) -> bool:
        """Whether no tool call will deliver it any more: its turn is over, or forgotten, or there was none."""
        said = None if self._said is None else self._said()
        return not self.delivered and (said is None or said.closed)

    def __bool__(self) -> bool:
        return self.taken

    def __repr__(self) -> str:
        return f"Word(taken={self.taken}, returned={self.returned})"


Notes: TypeAlias = "tuple[UserMessage | str, ...]"
"""What the model shall read beside a result: the user's words, and sentences of ours."""


class UserMessages:
    """The words that wait for the model. Any turn of a family may deliver them; the outermost one closes it.

    What is said takes no lock: a signal handler says it, and its own thread may hold any.
    """

    __slots__ = ("__weakref__", "_lock", "_waiting", "closed", "stops")

    def __init__(self) -> None:
        self._lock = Lock()
        """Taken last: nothing that takes another one runs under it."""
        self._waiting: deque[UserMessage | str] = deque()
        self.stops: list[UserMessage] = []
        """If there are any, every further call is refused with them."""
        self.closed = False

    def add(self, text: str, *, stop: bool) -> UserMessage:
        """The user said something. It is not taken where the turn is over."""
        if self.closed:
            return UserMessage(text, stop=stop)
        word = UserMessage(text, self, stop=stop)
        self._waiting.append(word)
        if self._came_late(word):
            return UserMessage(text, stop=stop)
        if stop:
            self.stops.append(word)
        return word

    def _came_late(self, word: UserMessage) -> bool:
        """Closed meanwhile: who closed it gives the word back, or did not see it."""
        if self.closed:
            with suppress(ValueError):
                self._waiting.remove(word)
                return True
        return False

    @property
    def stop_is_heard(self) -> bool:
        """Whether the model has every word to stop."""
        return all(word.delivered for word in self.stops)

    def take(self) -> Notes:
        """What has waited; it counts as delivered unless it is put back."""
        with self._lock:
            taken = self._drained()
            _mark(taken, delivered=True)
        return taken

    def _drained(self) -> Notes:
        """One by one: a word may be said at any moment, and must not be lost."""
        waiting = self._waiting
        return tuple(waiting.popleft() for _ in range(len(waiting)))

    def put_back(self, sentences: Notes) -> None:
        """There was no place for them: they come first the next time."""
        with self._lock:
            _mark(sentences, delivered=False)
            if not self.closed:
                self._waiting.extendleft(reversed(sentences))

    def close(self) -> list[str]:
        """The turn is over; gives back what the model never read."""
        with self._lock:
            self.closed = True
            left = self._drained()
        return [word.text for word in left if isinstance(word, UserMessage)]


def texts(sentences: Iterable[UserMessage | str]) -> list[str]:
    """What there is to read."""
    return [one.text if isinstance(one, UserMessage) else one for one in sentences]


def _mark(sentences: Notes, *, delivered: bool) -> None:
    for one in sentences:
        if isinstance(one, UserMessage):
            one.delivered = delivered
