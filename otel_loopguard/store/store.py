"""The store: one cell of bytes by name, which is changed only by who has seen its present value.

All that a server has to be able to do is compare and set. A cell holds the state of one turn, whichever processes
work on the turn.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

ANYTHING = b"?"
"""As the version that was seen: it is that of no cell, so the answer is the cell as it is."""
VERSION_SIZE = 8
"""Bytes of a version. Who writes a cell draws it, so that a write whose answer was lost is recognised."""


class Swapped(NamedTuple):
    """The cell was changed."""

    time: float
    """Seconds since the epoch, by the clock of the server."""
    server: bytes
    """Identifies the server. Another one may not have all that this one has acknowledged."""


class Newer(NamedTuple):
    """The cell has another version than the one that was seen, and is as it was."""

    time: float
    """Seconds since the epoch, by the clock of the server."""
    server: bytes
    """Identifies the server."""
    version: bytes
    """Empty if there is no cell."""
    state: bytes
    """Empty if there is no cell, or it cannot be read with the key of this deployment."""


class Store(Protocol):
    """Cells by names that reveal nothing. It never raises: None says that it cannot be used now."""

    async def swap(self, key: str, seen: bytes, version: bytes, state: bytes) -> Swapped | Newer | None:
        """Set a cell to a new version and state, if it still has the version that was seen.

        ``seen`` is empty if there was no cell. After None the cell may have been changed all the same.
        """


class MemoryStore:
    """Cells in this process, within bounds. The one that was used least recently goes first."""

    def __init__(
        self, most: int = 9_000, longest_idle: float = 3_600.0, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._most, self._longest_idle, self._clock = most, longest_idle, clock
        self.cells: OrderedDict[str, tuple[float, bytes, bytes]] = OrderedDict()
        """The time of the last change, version and state, by key."""
        self.server = b"memory"

    async def swap(self, key: str, seen: bytes, version: bytes, state: bytes) -> Swapped | Newer | None:
        """Set a cell if it still has the version that was seen. At most two old ones go for each that comes."""
        now = self._clock()
        used, old, kept = self.cells.get(key, (now, b"", b""))
        if now - used > self._longest_idle:
            old, kept = b"", b""
        if seen != old:
            return Newer(now, self.server, old, kept)
        self.cells[key] = (now, version, state)
        self.cells.move_to_end(key)
        for _ in range(2):
            oldest, (used, *_) = next(iter(self.cells.items()))
            if len(self.cells) <= self._most and now - used <= self._longest_idle:
                break
            del self.cells[oldest]
        return Swapped(now, self.server)
