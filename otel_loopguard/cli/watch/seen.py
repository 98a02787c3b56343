"""Find tool spans that come twice: an exporter had no answer and sent them again, or a consumer was killed."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

import orjson

from otel_loopguard.store import background
from otel_loopguard.store.store import ANYTHING, VERSION_SIZE, Newer, Swapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.spans.otlp import ToolSpan
    from otel_loopguard.store.store import Store

MOST_SEEN = 1_000_000
"""Ids of tool spans."""
MOST_TRACES = 100_000
STORE_SECONDS = 3_600.0
"""The time for which a store keeps the ids of a trace. Spans are read again within minutes, if at all."""
_LONGEST_ID = 64
_MOST_IN_CELL = 10_000
_MOST_TRIES = 8


class Seen(Protocol):
    """The tool spans of the last time. All methods but ``moved`` are called by the thread that judges."""

    def add(self, span: ToolSpan) -> bool:
        """Add a span. Return False if it was there."""

    def judged(self, span: ToolSpan) -> None:
        """Note that a span was judged."""

    def moved(self) -> None:
        """Note that spans may come from now on whose traces another consumer has judged so far."""


class SeenInMemory:
    """Hashes of ids in two halves. The older half is forgotten at once."""

    def __init__(self, most: int = MOST_SEEN) -> None:
        self._half = max(most // 2, 1)
        self._young: set[int] = set()
        self._old: set[int] = set()

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def add(self, span: ToolSpan) -> bool:
        """Add a span. Return False if it was there."""
        key = hash((span.trace, span.span))
        if key in self._young or key in self._old:
            return False
        if len(self._young) >= self._half:
            self._old, self._young = self._young, set()
        self._young.add(key)
        return True

    def judged(self, span: ToolSpan) -> None:
        """Do nothing: a span is forgotten with the process that was to judge it."""

    def moved(self) -> None:
        """Do nothing: spans of other consumers are unknown here."""


class SeenInStore:
    """Also finds the spans that other consumers have judged, by a cell of each trace in a shared store.

    A cell is read once, at the first span of its trace: until partitions move, no other consumer judges that trace. A
    span is written after it was judged, so one that was lost with its consumer is judged again.
    """

    def __init__(self, store: Store, name: Callable[[str], str], *, most_traces: int = MOST_TRACES) -> None:
        """Take a store, and the function that hides an id from it."""
        self._memory = SeenInMemory()
        self._store, self._name = store, name
        self._most_traces = most_traces
        self._traces: OrderedDict[str, _Trace] = OrderedDict()

    def add(self, span: ToolSpan) -> bool:
        """Add a span. Return False if it was there. While the store does not answer, this knows its own spans alone."""
        return self._memory.add(span) and _id(span) not in self._of(span.trace).judged

    def judged(self, span: ToolSpan) -> None:
        """Write a span to the store, in the background."""
        trace = self._of(span.trace)
        trace.waiting.append(_id(span))
        background.run_later(self._write(self._key(span.trace), trace))

    def moved(self) -> None:
        """Have the cell of each trace read again."""
        self._traces = OrderedDict()

    def _of(self, name: str) -> _Trace:
        known = self._traces
        trace = known.get(name)
        if trace is None:
            trace = _Trace()
            reply = background.wait(self._store.swap(self._key(name), ANYTHING, b"", b""))
            if not isinstance(reply, Newer):
                return trace
            trace.take(reply)
            known[name] = trace
            if len(known) > self._most_traces:
                known.popitem(last=False)
        return trace

    async def _write(self, key: str, trace: _Trace) -> None:
        """Add the spans that wait to the cell. What another write has taken with it is not written again."""
        async with trace.lock:
            for _ in range(_MOST_TRIES if trace.waiting else 0):
                written = len(trace.waiting)  # the thread that judges adds more meanwhile
                judged = [*trace.judged, *trace.waiting[:written]][-_MOST_IN_CELL:]
                version = os.urandom(VERSION_SIZE)
                reply = await self._store.swap(key, trace.seen, version, orjson.dumps(judged))
                if isinstance(reply, Swapped):
                    trace.seen, trace.judged = version, frozenset(judged)
                    del trace.waiting[:written]
                    return
                if reply is None:
                    return
                trace.take(reply)

    def _key(self, trace: str) -> str:
        return f"spans-{self._name(trace)}"


class _Trace:
    """The cell of a trace as this process knows it."""

    def __init__(self) -> None:
        self.seen = b""
        """The version of the cell."""
        self.judged: frozenset[str] = frozenset()
        """The ids of the spans that were judged."""
        self.waiting: list[str] = []
        """Those that are not written yet."""
        self.lock = asyncio.Lock()

    def take(self, reply: Newer) -> None:
        self.seen = reply.version
        self.judged = frozenset(orjson.loads(reply.state)) if reply.state else frozenset()


def _id(span: ToolSpan) -> str:
    return span.span[:_LONGEST_ID].encode("utf-8", "replace").decode()
