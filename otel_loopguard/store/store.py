"""The store: cells of bytes by name, each with the state of one turn, whichever processes work on the turn.

A cell is changed only by a process that knows its present version, so a server only has to compare and set.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

ANYTHING = b"?"
"""As ``seen`` of ``swap``, it reads a cell: no cell has this version, so ``Newer`` is returned, with the cell."""
VERSION_SIZE = 8
"""Bytes of a version. The writer of a cell draws it, and so recognises its own write if the answer was lost."""


class Swapped(NamedTuple):
    """The cell was changed."""

    time: float
    """Seconds since the epoch, by the clock of the server."""
    server: bytes
    """Identifies the server. Another one may not have all that this one has acknowledged."""


class Newer(NamedTuple):
    """The cell was not changed, because it has another version than the one that was seen."""

    time: float
    """Seconds since the epoch, by the clock of the server."""
    server: bytes
    """Identifies the server."""
    version: bytes
    """Empty if there is no cell."""
    state: bytes
    """Empty if there is no cell, or it cannot be read with the key of this deployment."""


class Store(Protocol):
    """Cells by names that reveal nothing about the turn."""

    async def swap(self, key: str, seen: bytes, version: bytes, state: bytes) -> Swapped | Newer | None:
        """Set a cell to a new version and state, if it still has the version ``seen`` (empty: if there is no cell).

        Never raises. None means that the store did not answer: the cell may have been changed all the same.
        """


class MemoryStore:
    """Cells in the memory of this process: at most ``most``, each until ``longest_idle`` seconds after its change."""

    def __init__(
        self, most: int = 9_000, longest_idle: float = 3_600.0, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._most, self._longest_idle, self._clock = most, longest_idle, clock
        self.cells: OrderedDict[str, tuple[float, bytes, bytes]] = OrderedDict()
        """The time of the last change, version and state, by key."""
        self.server = b"memory"

    async def swap(self, key: str, seen: bytes, version: bytes, state: bytes) -> Swapped | Newer | None:
        """Set a cell as ``Store.swap`` does. At most two old cells are dropped for each one that is set."""
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
