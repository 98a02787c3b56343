"""Where turns live: bounded, the least recently used goes first, and what lay idle for an hour is gone."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.core.turn.turn import Turn

MOST_TURNS = 10_000
LONGEST_IDLE = 3_600.0


class TurnStore(Protocol):
    """What a guard needs of a store."""

    def get_or_create(self, turn_id: str, create: Callable[[], Turn], now: float) -> Turn:
        """The live turn of that id, or a new one."""

    def discard(self, turn_id: str) -> None:
        """The turn is over."""

    def __len__(self) -> int:
        """How many turns are live."""


class MemoryStore:
    """The default: the turns of this process."""

    def __init__(self, most: int = MOST_TURNS, longest_idle: float = LONGEST_IDLE) -> None:
        self._most = most
        self._longest_idle = longest_idle
        self._turns: OrderedDict[str, Turn] = OrderedDict()
        self._lock = Lock()

    def get_or_create(self, turn_id: str, create: Callable[[], Turn], now: float) -> Turn:
        """The live turn of that id, or a new one."""
        with self._lock:
            turn = self._turns.get(turn_id)
            if turn is not None and now - turn.last_used <= self._longest_idle:
                self._turns.move_to_end(turn_id)
                return turn
            turn = self._turns[turn_id] = create()
            self._turns.move_to_end(turn_id)
            self._drop_old(now)
            return turn

    def _drop_old(self, now: float) -> None:
        """At most two go for each that comes: the store shrinks without ever stopping for a sweep."""
        for _ in range(2):
            oldest = next(iter(self._turns))
            if len(self._turns) <= self._most and now - self._turns[oldest].last_used <= self._longest_idle:
                return
            del self._turns[oldest]

    def discard(self, turn_id: str) -> None:
        """The turn is over."""
        with self._lock:
            self._turns.pop(turn_id, None)

    def __len__(self) -> int:
        """How many turns are live."""
        return len(self._turns)

    def after_fork(self) -> None:
        """A child process begins with no turns, and with a lock that nobody holds."""
        self._lock = Lock()
        self._turns = OrderedDict()
