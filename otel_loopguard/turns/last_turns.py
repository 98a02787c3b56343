"""The last turn of each conversation: a user's message is delivered to it, and an interrupted run resumes it."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from otel_loopguard.engine.user_messages import UserMessage
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.guard.turn import Turn

MOST = 10_000
"""LastTurns that are remembered."""
IDLE_SECONDS = 3600.0


class _Entry:
    __slots__ = ("running", "turn", "used")

    def __init__(self, turn: Turn, used: float) -> None:
        self.turn = turn
        self.used = used
        self.running = 0


class LastTurns:
    """The last turn of each conversation. An idle one is forgotten after an hour, the least recently used one first."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        elsewhere: Callable[[str], Turn | None] = lambda conversation_id: None,  # noqa: ARG005 - the signature
    ) -> None:
        self._clock = clock
        self._elsewhere = elsewhere
        """Returns the turn of this conversation that another process runs; None if there is none."""
        self._lock = threading.RLock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def started(self, conversation_id: str, turn: Turn) -> Turn | None:
        """Note that a run of this turn has begun. Return the turn that it replaces, if that has no run; else None."""
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
        """Drop at most two conversations, so that no call waits long for the clean-up."""
        for _ in range(2):
            try:
                oldest = next(iter(self._entries.values()), None)
            except RuntimeError as error:  # a signal handler has begun or closed a turn between the two calls
                pass_interrupt(error)
                return
            if oldest is None:
                return
            idle = not oldest.running and self._clock() - oldest.used > IDLE_SECONDS
            if len(self._entries) <= MOST and not idle:
                return
            self._entries.popitem(last=False)

    def ended(self, conversation_id: str, turn: Turn) -> bool:
        """Note that a run of this turn is over. Return True if the turn is still the last one of its conversation."""
        with self._lock:
            entry = self._entries.get(conversation_id)
            if entry is None or entry.turn is not turn:
                return False
            entry.running = max(0, entry.running - 1)
            return True

    def forget(self, conversation_id: str, turn: Turn) -> None:
        """Forget a turn that will not be resumed."""
        with self._lock:
            entry = self._entries.get(conversation_id)
            if entry is not None and entry.turn is turn:
                del self._entries[conversation_id]

    def last(self, conversation_id: str) -> Turn | None:
        """Return the last turn of this conversation; None if there is none, or it has been idle for an hour."""
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
        """Pass a user's message to the turn that runs for this conversation, here or in another process.

        The returned message is false if no turn took it.
        """
        entry = self._entries.get(conversation_id)  # a signal handler must not wait for the lock
        turn = entry.turn if entry is not None and entry.running else self._elsewhere(conversation_id)
        return UserMessage(text, stop=stop) if turn is None else turn.say(text, stop=stop)

    def clear(self) -> None:
        """Forget all, with a new lock: after a fork the thread that held the old one is gone."""
        self._lock = threading.RLock()
        self._entries.clear()
