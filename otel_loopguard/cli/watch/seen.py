"""Find tool spans that come twice: an exporter had no answer and sent them again, or a consumer was killed."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.guard.event_log import EventLog
    from otel_loopguard.spans.otlp import ToolSpan

MOST_SEEN = 1_000_000
"""Ids of tool spans."""
MOST_TRACES = 100_000
STORE_SECONDS = 3_600.0
"""The time for which a store keeps the ids of a trace. Spans are read again within minutes, if at all."""
_LONGEST_ID = 64


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
    """Also finds the spans that other consumers have judged, by a log of each trace in a shared store.

    A log is read once, at the first span of its trace: until partitions move, no other consumer judges that trace. A
    span is written after it was judged, so one that was lost with its consumer is judged again.
    """

    def __init__(self, log: EventLog, name: Callable[[str], str], *, most_traces: int = MOST_TRACES) -> None:
        """Take a store, and the function that hides an id from it."""
        self._memory = SeenInMemory()
        self._log, self._name = log, name
        self._most_traces = most_traces
        self._elsewhere: OrderedDict[str, frozenset[bytes]] = OrderedDict()
        """The ids of the spans that other consumers have judged, by trace."""

    def add(self, span: ToolSpan) -> bool:
        """Add a span. Return False if it was there. While the store does not answer, this knows its own spans alone."""
        return self._memory.add(span) and _id(span) not in self._judged_elsewhere(span.trace)

    def judged(self, span: ToolSpan) -> None:
        """Write a span to the store, in another thread."""
        self._log.send_later(self._key(span.trace), [(_id(span), b"")])

    def moved(self) -> None:
        """Have the log of each trace read again."""
        self._elsewhere = OrderedDict()

    def _judged_elsewhere(self, trace: str) -> frozenset[bytes]:
        known = self._elsewhere
        found = known.get(trace)
        if found is None:
            reply = self._log.append(self._key(trace), (), epoch=b"", seen=0)
            if reply is None:
                return frozenset()
            found = known[trace] = frozenset(entry.op for entry in reply.entries)
            if len(known) > self._most_traces:
                known.popitem(last=False)
        return found

    def _key(self, trace: str) -> str:
        return f"spans-{self._name(trace)}"


def _id(span: ToolSpan) -> bytes:
    return span.span[:_LONGEST_ID].encode("utf-8", "surrogatepass")
