"""Results that may be given again in place of a refusal, for tools with ``reuse`` in their contract."""

from __future__ import annotations

import re
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.values.canonical import result_bytes
from otel_loopguard.engine.values.introspect import is_iterator

if TYPE_CHECKING:
    from otel_loopguard.engine.vocabulary import Outcome

_MOST_BYTES = 262_144


class ReusableResults:
    """Results by the key of their call, up to 256 KiB in all. The oldest are dropped first."""

    __slots__ = ("_bytes", "_results")

    def __init__(self) -> None:
        self._bytes = 0
        self._results: dict[int, tuple[Any, int]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._results

    def get(self, key: int) -> Any:
        """Return the kept result of a call; None if there is none."""
        found = self._results.get(key)
        return None if found is None else found[0]

    def put(self, key: int, outcome: Outcome, size: int) -> None:
        """Keep the result of a call, ``size`` bytes, in place of its earlier one. No iterator or coroutine is kept."""
        result = outcome.result
        if outcome.keep is not None:
            result, size = outcome.keep, _size_of(outcome.keep)
        self._bytes -= self._results.pop(key, (None, 0))[1]
        if is_iterator(result) or type(result) is CoroutineType:
            return
        self._results[key] = (result, size)
        self._bytes += size
        while self._bytes > _MOST_BYTES:
            self._bytes -= self._results.pop(next(iter(self._results)))[1]


def _size_of(value: Any) -> int:
    """Estimate the bytes of a value: of its canonical form, and of the blocks and texts that are only hashed there."""
    data = result_bytes(value)
    return len(data) + sum(map(int, _BLOCKS(data)))


_BLOCKS = re.compile(rb"\\u0000(?:bytes|text):(\d+)").findall
