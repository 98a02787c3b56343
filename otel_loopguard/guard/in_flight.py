"""The calls of a turn that are running, and the results that may be given again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.history.bounded import EMPTY
from otel_loopguard.engine.values import introspect
from otel_loopguard.engine.values.canonical import result_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from otel_loopguard.engine.words import Decision, Outcome, Record, ToolCall

    _Entry: TypeAlias = "tuple[ToolCall, Decision, _Entry | None]"

_MOST_CALLS = 1_024
_MOST_BYTES = 262_144


class CallsInFlight:
    """The decisions about running calls, found by the identity of the call object, else by its contents."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: dict[int, _Entry] = EMPTY
        """By the identity of the call object, which is unique while the object is kept here. The entry also has the
        decision, and an earlier entry of the very same object."""

    def put(self, call: ToolCall, decision: Decision) -> None:
        """Add a call that starts. If there are too many, the oldest is forgotten."""
        calls, identity = self.calls, id(call)
        if not calls:
            self.calls = {identity: (call, decision, None)}
            return
        if len(calls) >= _MOST_CALLS:
            calls.pop(next(iter(calls)))
        calls[identity] = (call, decision, calls.get(identity))

    def __len__(self) -> int:
        return len(self.calls)

    def get(self, call: ToolCall) -> Record | None:
        """Return the record of a running call."""
        entry = self.calls.get(id(call))
        return None if entry is None else entry[1].record

    def take(self, call: ToolCall) -> Record | None:
        """Remove this very object and return its record."""
        calls = self.calls
        entry = calls.pop(id(call), None)
        if entry is None:
            return None
        if entry[2] is not None:
            calls[id(call)] = entry[2]
        elif not calls:
            self.calls = EMPTY
        record: Record = entry[1].record
        return record

    def take_equal(self, call: ToolCall, has_same_arguments: Callable[[Record], bool]) -> Record | None:
        """Remove a call with the same tool, id and arguments: the caller made a new object for its end."""
        name = introspect.name_text(call.tool)
        for entry in self.calls.values():
            same = introspect.name_text(entry[0].tool) == name and entry[0].call_id == call.call_id
            if same and has_same_arguments(entry[1].record):
                return self.take(entry[0])
        return None

    def clear(self) -> None:
        """Forget all calls: the turn is over."""
        self.calls = EMPTY


class ReusableResults:
    """Results that may be given again, within a bound on their bytes; the oldest are dropped first."""

    __slots__ = ("_bytes", "_results")

    def __init__(self) -> None:
        self._bytes = 0
        self._results: dict[int, tuple[Any, int]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._results

    def get(self, key: int) -> Any:
        """Return the result of a call, or None."""
        found = self._results.get(key)
        return None if found is None else found[0]

    def put(self, key: int, outcome: Outcome, size: int) -> None:
        """Keep a result of ``size`` bytes in place of an earlier one of the same call."""
        result = outcome.result
        if outcome.keep is not None:
            result, size = outcome.keep, _size_of(outcome.keep)
        self._bytes -= self._results.pop(key, (None, 0))[1]
        self._results[key] = (result, size)
        self._bytes += size
        while self._bytes > _MOST_BYTES:
            self._bytes -= self._results.pop(next(iter(self._results)))[1]


def _size_of(value: Any) -> int:
    """Estimate the bytes of a value. Its canonical form gives the size of a block of memory or a long text."""
    data = result_bytes(value)
    return len(data) + sum(map(int, _BLOCKS(data)))


_BLOCKS = re.compile(rb"\\u0000(?:bytes|text):(\d+)").findall
