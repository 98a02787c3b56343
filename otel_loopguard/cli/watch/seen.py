"""Find tool spans that come twice: an exporter had no answer, and sent them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_loopguard.spans.otlp import ToolSpan

MOST_SEEN = 1_000_000
"""Ids of tool spans."""


class SeenSpans:
    """The tool spans of the last time: hashes of ids in two halves, of which the older one is forgotten at once."""

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
