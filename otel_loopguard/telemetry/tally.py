"""Counts calls where they are made, and tells the SDK now and then: its counters cost more than judging a call."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context

MOST_KEPT = 32


class BatchedCounter:
    """Adds up by key; hands on after 32, and when somebody is about to read.

    The context of the last call goes with each sum, so that its exemplar still names a call of that kind.
    """

    def __init__(self, add: Callable[[int, tuple[str, str], Context], None]) -> None:
        self._add = add
        self._lock = threading.Lock()
        self._kept = 0
        self._sums: dict[tuple[str, str], tuple[int, Context]] = {}

    def count(self, key: tuple[str, str], context: Context) -> None:
        """One more of these."""
        with self._lock:
            self._sums[key] = (self._sums[key][0] + 1 if key in self._sums else 1, context)
            self._kept += 1
            full = self._kept >= MOST_KEPT
        if full:
            self.flush()

    def flush(self) -> None:
        """Hand on what is kept."""
        with self._lock:
            sums, self._sums, self._kept = self._sums, {}, 0
        for key, (number, context) in sums.items():
            self._add(number, key, context)

    def clear(self) -> None:
        """Forget what the parent counted, after a fork."""
        self._lock = threading.Lock()
        self._sums, self._kept = {}, 0
