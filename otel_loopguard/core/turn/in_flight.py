"""Calls that have begun and not ended, and results that may be given again: what a turn holds beside its history."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.values import introspect
from otel_loopguard.core.values.canonical import result_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from otel_loopguard.core.model import Outcome, Record, ToolCall

    _Waiting: TypeAlias = "tuple[ToolCall, Record, _Waiting | None]"

_MOST_PENDING = 1_024
_MOST_KEPT_BYTES = 262_144


class CallsInFlight:
    """The records of calls that run right now, found by the call object itself, else by what it says."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: dict[int, _Waiting] = {}
        """By the call object's identity, which is nobody else's while it is kept here. Beside it the record, and an
        earlier begin of the very same object."""

    def put(self, call: ToolCall, record: Record) -> None:
        """The call runs. Of those that never end the oldest is forgotten."""
        if len(self._calls) >= _MOST_PENDING:
            self._calls.pop(next(iter(self._calls)))
        identity = id(call)
        self._calls[identity] = (call, record, self._calls.get(identity))

    def get(self, call: ToolCall) -> Record | None:
        """The record of a call that runs."""
        waiting = self._calls.get(id(call))
        return None if waiting is None else waiting[1]

    def take(self, call: ToolCall) -> Record | None:
        """The record of this very object, which has ended."""
        waiting = self._calls.pop(id(call), None)
        if waiting is None:
            return None
        if waiting[2] is not None:
            self._calls[id(call)] = waiting[2]
        return waiting[1]

    def take_equal(self, call: ToolCall, says_the_same: Callable[[Record], bool]) -> Record | None:
        """The record of a call that the caller has made anew: the same tool, id and arguments."""
        name = introspect.name_text(call.tool)
        for waiting in self._calls.values():
            if (
                introspect.name_text(waiting[0].tool) == name
                and waiting[0].call_id == call.call_id
                and says_the_same(waiting[1])
            ):
                return self.take(waiting[0])
        return None

    def clear(self) -> None:
        """The turn is over."""
        self._calls.clear()


class ReusableResults:
    """Results that may be given again, within a bound on their bytes; the oldest go first."""

    __slots__ = ("_bytes", "_results")

    def __init__(self) -> None:
        self._bytes = 0
        self._results: dict[int, tuple[Any, int]] = {}

    def __contains__(self, key: int) -> bool:
        return key in self._results

    def get(self, key: int) -> Any:
        """The result, or None."""
        found = self._results.get(key)
        return None if found is None else found[0]

    def put(self, key: int, outcome: Outcome, size: int) -> None:
        """The result, of so many bytes, replaces an earlier one of the same call."""
        result = outcome.result
        if outcome.keep is not None:
            result, size = outcome.keep, _size_of(outcome.keep)
        self._bytes -= self._results.pop(key, (None, 0))[1]
        self._results[key] = (result, size)
        self._bytes += size
        while self._bytes > _MOST_KEPT_BYTES:
            self._bytes -= self._results.pop(next(iter(self._results)))[1]


def _size_of(value: Any) -> int:
    """About how many bytes it takes to keep this. In canonical form blocks of memory are named, with their size."""
    data = result_bytes(value)
    return len(data) + sum(map(int, _BLOCKS(data)))


_BLOCKS = re.compile(rb"\\u0000bytes:(\d+):").findall
