"""The store: cells of bytes by name, each with the state of one turn, whichever processes work on the turn.

A cell is changed only by a process that knows its present version, so a server only has to compare and set.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

READ_ONLY = b"?"
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
