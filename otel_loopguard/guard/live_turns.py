"""The turns of a guard that are in use, within bounds."""

from __future__ import annotations

from collections import OrderedDict
from threading import RLock
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.guard.turn import Turn

MOST_TURNS = 10_000
LONGEST_IDLE = 3_600.0
"""Seconds."""


class LiveTurns:
    """The turns of a guard, by id: the 10,000 used last, without those that were idle for an hour.

    A turn that something else holds, such as a running call, is found as long as it is held. No thread waits for
    another lock while it holds this one, and the lock lets its own thread in. So a signal handler that begins a turn
    never waits for a thread that waits for the code that the signal interrupted.
    """

    def __init__(self, most: int = MOST_TURNS, longest_idle: float = LONGEST_IDLE) -> None:
        self._most = most
        self._longest_idle = longest_idle
        self._latest: OrderedDict[str, Turn] = OrderedDict()
        self._held: WeakValueDictionary[str, Turn] = WeakValueDictionary()
        """Turns beyond the bound that a run or a call still holds."""
        self._lock = RLock()

    def add(self, turn: Turn, now: float) -> None:
        """Add a turn whose id is new."""
        with self._lock:
            self._latest[turn.known_as] = turn
            self._drop_old(now)

    def get_or_create(self, turn_id: str, create: Callable[[], Turn], now: float) -> Turn:
        """Return the live turn of this id, or the one that ``create`` makes. ``now``: seconds of the guard's clock."""
        with self._lock:
            turn = self._latest.get(turn_id) or self._held.pop(turn_id, None)
            if turn is None or now - turn.last_used > self._longest_idle:
                turn = create()
            self._latest[turn_id] = turn
            self._latest.move_to_end(turn_id)
            self._drop_old(now)
        return turn

    def _drop_old(self, now: float) -> None:
        """Drop at most two old turns, so that no call waits for a sweep. Pass over a turn that is not settled.

        If none is settled, there may be twice as many turns as ``MOST_TURNS``.
        """
        for _ in range(2):
            try:
                turn = next(iter(self._latest.values()), None)
            except RuntimeError as error:  # a signal handler has begun or closed a turn between the two calls
                pass_interrupt(error)
                return
            if turn is None:
                return
            is_idle = now - turn.last_used > self._longest_idle
            if len(self._latest) <= self._most and not is_idle:
                return
            if is_idle or turn.is_settled or len(self._latest) > 2 * self._most:
                self._latest.pop(turn.known_as, None)
                if not is_idle:
                    self._held[turn.known_as] = turn
            else:
                self._latest.move_to_end(turn.known_as)

    def discard(self, turn_id: str) -> None:
        """Forget a turn that is over."""
        with self._lock:
            self._held.pop(turn_id, None)
            self._latest.pop(turn_id, None)

    def __len__(self) -> int:
        """Return the number of turns."""
        return len(self._latest)

    def after_fork(self) -> None:
        """Begin with no turns in a child process, and with a lock that no thread of the parent holds."""
        self._lock = RLock()
        self._latest = OrderedDict()
        self._held = WeakValueDictionary()
