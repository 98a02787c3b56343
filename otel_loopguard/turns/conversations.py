"""Conversations that have a turn: where a user's word goes, and where an interrupted run goes on."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from otel_loopguard.core.turn.user_messages import UserMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.core.turn.turn import Turn

MOST = 10_000
IDLE_SECONDS = 3600.0


class _Entry:
    __slots__ = ("running", "turn", "used")

    def __init__(self, turn: Turn, used: float) -> None:
        self.turn = turn
        self.used = used
        self.running = 0


class Conversations:
    """The last turn of each conversation, the least recently used forgotten first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def started(self, conversation_id: str, turn: Turn) -> Turn | None:
        """A run of this turn has begun; returns the turn it takes the place of, if that one is over."""
        with self._lock:
            before = self._entries.get(conversation_id)
            entry = before if before is not None and before.turn is turn else _Entry(turn, self._clock())
            entry.used = self._clock()
            entry.running += 1
            self._entries[conversation_id] = entry
            self._entries.move_to_end(conversation_id)
            self._drop_old()
        return None if before is None or before.turn is turn or before.running else before.turn

    def _drop_old(self) -> None:
        """At most two go for each that comes, so nobody ever waits for a sweep."""
        for _ in range(2):
            oldest = next(iter(self._entries.values()))
            idle = not oldest.running and self._clock() - oldest.used > IDLE_SECONDS
            if len(self._entries) <= MOST and not idle:
                return
            self._entries.popitem(last=False)

    def ended(self, conversation_id: str, turn: Turn) -> bool:
        """A run of this turn is over; whether the turn stays known, because an interrupted run may be resumed."""
        with self._lock:
            entry = self._entries.get(conversation_id)
            if entry is None or entry.turn is not turn:
                return False
            entry.running = max(0, entry.running - 1)
            return True

    def forget(self, conversation_id: str, turn: Turn) -> None:
        """The turn will not go on."""
        with self._lock:
            entry = self._entries.get(conversation_id)
            if entry is not None and entry.turn is turn:
                del self._entries[conversation_id]

    def last(self, conversation_id: str) -> Turn | None:
        """The last turn of this conversation, unless it has been idle for an hour."""
        with self._lock:
            entry = self._entries.get(conversation_id)
            if entry is None:
                return None
            now = self._clock()
            if not entry.running and now - entry.used > IDLE_SECONDS:
                del self._entries[conversation_id]
                return None
            entry.used = now
            self._entries.move_to_end(conversation_id)
            return entry.turn

    def say(self, conversation_id: str, text: str, *, stop: bool) -> UserMessage:
        """Hand a user's word to the turn that runs for this conversation; it is not taken if that has just ended."""
        entry = self._entries.get(conversation_id)  # a signal handler must not wait for the lock
        if entry is None or not entry.running:
            return UserMessage(text, stop=stop)
        return entry.turn.say(text, stop=stop)

    def clear(self) -> None:
        """Forget all, with a new lock: after a fork nobody holds the old one any more who could release it."""
        self._lock = threading.Lock()
        self._entries.clear()
