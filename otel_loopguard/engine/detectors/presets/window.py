"""The calls that count under ``counting = "calls"``: all of the turn, its last ones, or those of its last seconds."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.engine.values.queries import query_of
from otel_loopguard.engine.vocabulary import Sameness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.vocabulary import Record

MOST_CALLS = 1_024
MOST_QUERIES = 256
_NOT_MOVED = frozenset({Sameness.FIRST, Sameness.SAME})


class CountedCall(NamedTuple):
    """One call in the window."""

    at: float
    """The seconds of the guard's clock at its start."""
    key: int
    unknown: bool
    place: int
    """The index of the call in its turn."""
    moved: bool = False
    """True for a poll whose result is not that of the run before. Only kept if polls have a mode of their own."""


class CallWindow:
    """The calls of the window, and how many of them are equal."""

    __slots__ = ("_by_key", "_calls", "_most", "_queries", "_seconds", "counts_refused", "has_poll_mode", "unknown")

    def __init__(
        self, seconds: float = 0, calls: int = 0, *, counts_refused: bool = False, has_poll_mode: bool = False
    ) -> None:
        self._seconds = seconds
        self._calls: deque[CountedCall] = deque()
        self._by_key: dict[int, int] = {}
        self._queries: deque[tuple[int, str]] = deque(maxlen=min(calls, MOST_QUERIES) or MOST_QUERIES)
        self._most = min(calls, MOST_CALLS) or MOST_CALLS
        self.counts_refused = counts_refused
        """True if refused calls count, too."""
        self.has_poll_mode = has_poll_mode
        """True if polls are judged by a mode of their own."""
        self.unknown = 0
        """The number of calls in the window to tools that do not exist."""

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, record: Record) -> None:
        """Count this call from now on."""
        now = record.at or 0.0  # without recorded times all calls are in the window
        self.forget_until(now)
        self._append(CountedCall(now, record.key, record.registered is False, record.index))
        tool = record.resolved.tool
        if tool.contract.query is not None:
            query = query_of(record.resolved.arguments, tool.contract.query)
            if query is not None:
                self._queries.append((tool.digest, query))

    def end(self, record: Record) -> None:
        """Note that a call has ended: whether it is a poll with another result than its last run."""
        if not self.has_poll_mode or not record.kind.polls or record.sameness in _NOT_MOVED:
            return
        for position, call in enumerate(reversed(self._calls), 1):
            if call.place == record.index:
                self._calls[-position] = call._replace(moved=True)
                return

    def _append(self, call: CountedCall) -> None:
        self._calls.append(call)
        key = call.key
        self._by_key[key] = self._by_key.get(key, 0) + 1
        self.unknown += call.unknown
        if len(self._calls) > self._most:
            self._drop_oldest()

    def forget_until(self, now: float) -> None:
        """Drop the calls that are older than the window. ``now``: seconds of the guard's clock."""
        if self._seconds:
            while self._calls and now - self._calls[0].at > self._seconds:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = self._calls.popleft()
        self.unknown -= oldest.unknown
        self._by_key[oldest.key] -= 1
        if not self._by_key[oldest.key]:
            del self._by_key[oldest.key]

    def forget(self, key: int) -> None:
        """Drop the equal calls of this key: the model cannot see their results any more."""
        kept = [call for call in self._calls if call.key != key]
        self._calls.clear()
        self._by_key.clear()
        self.unknown = 0
        self.restore(kept)

    def equal(self, key: int) -> int:
        """Return how many calls in the window have this key."""
        return self._by_key.get(key, 0)

    def unmoved(self, key: int) -> int:
        """Return how many polls in the window have this key, from the latest one on whose result had changed."""
        count = 0
        for call in reversed(self._calls):
            if call.key == key:
                count += 1
                if call.moved:
                    break
        return count

    def latest(self) -> Iterator[CountedCall]:
        """Iterate over the calls, the latest first."""
        return reversed(self._calls)

    def queries(self, tool: int) -> Iterator[str]:
        """Iterate over the normalised queries of a tool, given by its digest."""
        return (query for digest, query in self._queries if digest == tool)

    def to_list(self) -> list[Any]:
        """Return the counted calls as plain values. Queries are left out: they are text of arguments."""
        return [list(call) for call in self._calls]

    def restore(self, calls: list[Any]) -> None:
        """Count the calls that ``to_list`` returned."""
        for call in calls:
            self._append(CountedCall(*call))


def window_at(history: History, record: Record) -> CallWindow:
    """Return the calls that count at this moment."""
    window: CallWindow = history.window
    window.forget_until(record.at or 0.0)
    return window
