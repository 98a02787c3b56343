"""A server of cells, and the connections to it: a swap takes its time, comes late, twice, or not at all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.store.memory import FlakyStore

if TYPE_CHECKING:
    import random

    from otel_loopguard.store.store import Newer, Swapped
    from tests.simulator.one_thread import Loop

LATE = 3.0
"""Seconds after which a swap arrives at most that was given up."""


class Server(FlakyStore):
    """The faults of its next swaps may also be "late", which is after it was given up, and "doubled"."""

    def __init__(self, loop: Loop, rng: random.Random) -> None:
        super().__init__(loop.time)
        self._rng = rng
        self._arriving: set[asyncio.Future[None]] = set()
        self.losses = 0
        """How often it has lost what it had acknowledged."""

    async def swap(self, key: str, seen: bytes, version: bytes, state: bytes) -> Swapped | Newer | None:
        """Swap, after a while."""
        await asyncio.sleep(self._rng.random() * 0.01)
        fault = self.faults[0] if self.faults else None
        if fault == "late":
            self.faults.pop(0)
            self._arriving.add(asyncio.ensure_future(self._arrive(key, seen, version, state)))
            return None
        if fault == "doubled":
            self.faults.pop(0)
            await super().swap(key, seen, version, state)
        reply = await super().swap(key, seen, version, state)
        await asyncio.sleep(self._rng.random() * 0.01)
        return reply

    async def _arrive(self, key: str, seen: bytes, version: bytes, state: bytes) -> None:
        await asyncio.sleep(self._rng.random() * LATE)
        await super().swap(key, seen, version, state)

    def fail(self, fault: str, count: int) -> None:
        """Have a fault: of all that it has, or of the next swaps."""
        if fault == "empty":
            self.losses += 1
            self.empty()
        elif fault == "failover":
            self.losses += 1
            self.fail_over(count)
        elif fault == "well":
            self.faults = []
        else:
            self.faults += [fault] * count


class Connection:
    """The connection of one process."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.lost = 0
        """The number of its next swaps that do not reach the server."""

    async def swap(self, key: str, seen: bytes, version: bytes, state: bytes) -> Swapped | Newer | None:
        """Swap, unless it is cut."""
        if self.lost:
            self.lost -= 1
            await asyncio.sleep(0.01)
            return None
        return await self._server.swap(key, seen, version, state)
