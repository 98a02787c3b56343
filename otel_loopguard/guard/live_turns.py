"""The store of turns: the state of turns that are not in use, as bytes, so that a store can be shared by processes.

A turn in use is an object of its process (``LiveTurns``). Only the latest of them stay objects: the state of the others
goes to the store, and comes back when the turn is asked for again. A turn of which the state is not all, such as one
with a running call, stays an object as long as there is room for it.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import RLock
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.guard.turn import Turn

MOST_TURNS = 10_000
MOST_LIVE = 1_000
LONGEST_IDLE = 3_600.0


class TurnStore(Protocol):
    """The interface of a store: bytes by the id of a turn."""

    def load(self, turn_id: str, now: float) -> bytes | None:
        """Remove and return the state of a turn; None if there is none, or it is too old."""

    def save(self, turn_id: str, state: bytes, now: float) -> None:
        """Keep the state of a turn that was last used now."""

    def discard(self, turn_id: str) -> None:
        """Forget a turn that is over."""

    def clear(self) -> None:
        """Forget all turns of this process, as after a fork."""

    def __len__(self) -> int:
        """Return the number of turns."""


class MemoryStore:
    """The default store: a bounded dictionary. The least recently saved goes first, and what was idle for an hour."""

    def __init__(self, most: int = MOST_TURNS - MOST_LIVE, longest_idle: float = LONGEST_IDLE) -> None:
        self._most = most
        self._longest_idle = longest_idle
        self._states: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def load(self, turn_id: str, now: float) -> bytes | None:
        """Remove and return the state of a turn; None if there is none, or it is too old."""
        used, state = self._states.pop(turn_id, (now, None))
        return None if now - used > self._longest_idle else state

    def save(self, turn_id: str, state: bytes, now: float) -> None:
        """Keep the state of a turn. At most two old ones go for each that comes, so no call waits for a sweep."""
        self._states[turn_id] = (now, state)
        self._states.move_to_end(turn_id)
        for _ in range(2):
            oldest, (used, _) = next(iter(self._states.items()))
            if len(self._states) <= self._most and now - used <= self._longest_idle:
                return
            del self._states[oldest]

    def discard(self, turn_id: str) -> None:
        """Forget a turn that is over."""
        self._states.pop(turn_id, None)

    def clear(self) -> None:
        """Forget all turns."""
        self._states = OrderedDict()

    def __len__(self) -> int:
        """Return the number of turns."""
        return len(self._states)


class LiveTurns:
    """The turns in use, the latest of them as objects. Thread-safe, whatever the store is.

    No thread waits for another lock while it holds this one, and the lock lets its own thread in. So a signal handler
    that begins a turn never waits for a thread that waits for the code that the signal interrupted.
    """

    def __init__(self, store: TurnStore, most: int = MOST_LIVE, longest_idle: float = LONGEST_IDLE) -> None:
        self._store = store
        self._most = most
        self._most_unstored = MOST_TURNS
        """The bound if there are turns that should stay objects."""
        self._longest_idle = longest_idle
        self._latest: OrderedDict[str, Turn] = OrderedDict()
        self._held: WeakValueDictionary[str, Turn] = WeakValueDictionary()
        """Turns in the store that a run or a call still holds: such a turn is not made a second time from its state."""
        self._lock = RLock()

    def add(self, turn: Turn, now: float) -> None:
        """Add a turn whose id is new, so that the store has no state of it."""
        with self._lock:
            self._latest[turn.known_as] = turn
        self._store_old(now)

    def get_or_create(self, turn_id: str, create: Callable[[], Turn], now: float) -> Turn:
        """Return the turn of that id: the live one, else one that goes on from its stored state, else a new one."""
        with self._lock:
            turn = self._latest.get(turn_id) or self._held.pop(turn_id, None)
            if turn is None or now - turn.last_used > self._longest_idle:
                turn = create()
                state = self._store.load(turn_id, now)
                if state is not None:
                    turn.restore(state)
            elif turn.stored:
                turn.stored = False
                self._store.discard(turn_id)
            self._latest[turn_id] = turn
            self._latest.move_to_end(turn_id)
        self._store_old(now)
        return turn

    def use_again(self, turn: Turn) -> None:
        """Make a stored turn live again, because its holder makes a call: its state in the store is old from now on."""
        with self._lock:
            turn.stored = False
            if self._held.get(turn.known_as) is turn:
                del self._held[turn.known_as]
                self._store.discard(turn.known_as)
                self._latest[turn.known_as] = turn

    def _store_old(self, now: float) -> None:
        """Move at most two turns to the store for each that comes, so no call waits for a sweep."""
        for _ in range(2):
            with self._lock:
                turn = self._oldest_of_too_many(now)
            if turn is None:
                continue
            used = turn.last_used
            state = turn.state()
            with self._lock:
                if turn.last_used == used and self._latest.pop(turn.known_as, None) is turn:
                    turn.stored = True
                    self._held[turn.known_as] = turn
                    self._store.save(turn.known_as, state, used)

    def _oldest_of_too_many(self, now: float) -> Turn | None:
        """Return the turn to store, if there are too many. Drop one that is too old, and pass over one in use."""
        try:
            turn = next(iter(self._latest.values()), None)
        except RuntimeError as error:  # a signal handler has begun or closed a turn between the two calls
            pass_interrupt(error)
            return None
        if turn is None:
            return None
        idle = now - turn.last_used
        if len(self._latest) <= self._most and idle <= self._longest_idle:
            return None
        if idle > self._longest_idle:
            self._latest.pop(turn.known_as, None)
        elif turn.is_storable or len(self._latest) > self._most_unstored:
            return turn
        else:
            self._latest.move_to_end(turn.known_as)
        return None

    def discard(self, turn_id: str) -> None:
        """Forget a turn that is over."""
        with self._lock:
            if self._latest.pop(turn_id, None) is None:
                self._held.pop(turn_id, None)
                self._store.discard(turn_id)

    def __len__(self) -> int:
        """Return the number of turns, the stored ones included."""
        return len(self._latest) + len(self._store)

    def after_fork(self) -> None:
        """Begin with no turns in a child process, and with a lock that no thread of the parent holds."""
        self._lock = RLock()
        self._latest = OrderedDict()
        self._held = WeakValueDictionary()
        self._store.clear()
