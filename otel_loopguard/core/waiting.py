"""Calls that have begun and not ended, and results that may be given again: what a turn holds beside its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.core.model import Record, ToolCall

_MOST_PENDING = 1_024
_MOST_KEPT_BYTES = 262_144


class _Waiting(NamedTuple):
    call: ToolCall
    record: Record
    next: _Waiting | None
    """An earlier begin of the very same object."""


class Pending:
    """The records of calls that run right now, found by the call object itself, else by what it says."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: dict[int, _Waiting] = {}

    def put(self, call: ToolCall, record: Record) -> None:
        """The call runs. Of those that never end the oldest is forgotten."""
        if len(self._calls) >= _MOST_PENDING:
            self._calls.pop(next(iter(self._calls)))
        self._calls[id(call)] = _Waiting(call, record, self._calls.get(id(call)))

    def get(self, call: ToolCall) -> Record | None:
        """The record of a call that runs."""
        waiting = self._calls.get(id(call))
        return waiting.record if waiting is not None and waiting.call is call else None

    def take(self, call: ToolCall, says_the_same: Callable[[Record], bool]) -> Record | None:
        """The record of a call that has ended; the caller may have made an equal object anew."""
        identity = id(call)
        waiting = self._calls.get(identity)
        if waiting is None or waiting.call is not call:
            for identity, waiting in self._calls.items():  # noqa: B007 - both are used below
                if waiting.call[:3:2] == call[:3:2] and says_the_same(waiting.record):
                    break
            else:
                return None
        del self._calls[identity]
        if waiting.next is not None:
            self._calls[identity] = waiting.next
        return waiting.record

    def clear(self) -> None:
        """The turn is over."""
        self._calls.clear()


class Kept:
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

    def put(self, key: int, result: Any, size: int) -> None:
        """The result replaces an earlier one of the same call."""
        self._bytes -= self._results.pop(key, (None, 0))[1]
        self._results[key] = (result, size)
        self._bytes += size
        while self._bytes > _MOST_KEPT_BYTES:
            self._bytes -= self._results.pop(next(iter(self._results)))[1]
