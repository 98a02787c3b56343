"""A store in a dictionary that fails as stores do: it is away, its answer is lost, it comes back empty or older."""

from __future__ import annotations

import asyncio

from otel_loopguard.store.store import READ_ONLY, Newer, Swapped


class FlakyStore:
    """A store for tests. ``faults`` are those of the next swaps: "refused", or "timed out" after it was done."""

    def __init__(self, clock=lambda: 1_000.0) -> None:
        self._clock = clock
        self.server = b"memory"
        self.cells = {}
        """The version and the state, by key."""
        self.faults = []
        self.writes = 0
        self._replaced = []
        """The key of each swap, and the cell that it has replaced."""

    async def swap(self, key, seen, version, state):
        """Swap, unless a fault is due. Other tasks have their turn before and after it."""
        self.writes += seen != READ_ONLY
        await asyncio.sleep(0)
        fault = self.faults.pop(0) if self.faults else None
        if fault == "refused":
            return None
        before = self.cells.get(key)
        old, kept = before or (b"", b"")
        reply = Newer(self._clock(), self.server, old, kept)
        if seen == old:
            reply = Swapped(self._clock(), self.server)
            self.cells[key] = (version, state)
            self._replaced.append((key, before))
        await asyncio.sleep(0)
        return None if fault == "timed out" else reply

    def away(self, swaps=1_000):
        """Refuse so many swaps."""
        self.faults = ["refused"] * swaps

    def empty(self):
        """Come back from a restart with nothing."""
        self.cells.clear()

    def fail_over(self, missing=2):
        """Have another server take over that lacks the last swaps."""
        for _ in range(min(missing, len(self._replaced))):
            key, before = self._replaced.pop()
            if before is None:
                self.cells.pop(key, None)
            else:
                self.cells[key] = before
        self.server += b"+"
