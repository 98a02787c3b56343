"""What was called lately, and how often, whatever came back: the memory of the detectors that only count calls.

Kept only where the policy says ``counting = "calls"``: within the turn, the last ``window`` seconds of it, or its
last ``window_calls`` calls.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.core.values.queries import query_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.core.model import Record

MOST_CALLS = 1_024
MOST_QUERIES = 256


class Counted(NamedTuple):
    """One call in the window."""

    at: float
    tool: str
    key: int
    unknown: bool


class CallWindow:
    """The calls of the window, and how many of them are equal."""

    __slots__ = ("_by_key", "_calls", "_most", "_queries", "_seconds", "unknown")

    def __init__(self, seconds: float = 0, calls: int = 0) -> None:
        self._seconds = seconds
        self._calls: deque[Counted] = deque()
        self._by_key: Counter[int] = Counter()
        self._queries: deque[tuple[str, str]] = deque(maxlen=min(calls, MOST_QUERIES) or MOST_QUERIES)
        self.unknown = 0
        """How many of them are calls to tools that do not exist."""
        self._most = min(calls, MOST_CALLS) or MOST_CALLS

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, record: Record) -> None:
        """This call counts from now on."""
        self.forget_until(record.at)
        counted = Counted(record.at, record.tool, record.key, record.registered is False)
        self._calls.append(counted)
        self._by_key[counted.key] += 1
        self.unknown += counted.unknown
        if len(self._calls) > self._most:
            self._drop()
        contract = record.resolved.tool.contract
        if contract.query is not None:
            query = query_of(record.resolved.arguments, contract.query)
            if query is not None:
                self._queries.append((record.tool, query))

    def forget_until(self, now: float) -> None:
        """What has left the window by now does not count any more."""
        while self._seconds and self._calls and now - self._calls[0].at > self._seconds:
            self._drop()

    def _drop(self) -> None:
        oldest = self._calls.popleft()
        self.unknown -= oldest.unknown
        self._by_key[oldest.key] -= 1
        if not self._by_key[oldest.key]:
            del self._by_key[oldest.key]

    def equal(self, key: int) -> int:
        """How many calls of the window are this one."""
        return self._by_key.get(key, 0)

    def latest(self) -> Iterator[int]:
        """The calls of the window, the last one first."""
        return (counted.key for counted in reversed(self._calls))

    def queries(self, tool: str) -> Iterator[str]:
        """What this tool was asked."""
        return (query for name, query in self._queries if name == tool)
