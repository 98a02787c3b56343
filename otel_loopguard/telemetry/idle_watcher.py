"""Watch the spans of a process that has made no tool call yet, and for which the runtime is not made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.shield import Shield
from otel_loopguard.spans.open_spans import OpenSpans

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.sdk.trace import ReadableSpan, Span


class WaitingWatcher:
    """In place of ``SpanWatcher`` until the first tool call: keeps the open spans, and gives the call to ``judge``."""

    marks: Final[Mapping[int, Any]] = {}
    """Empty: no call was counted yet."""
    live: Final = 0
    """The number of turns."""

    def __init__(self, judge: Callable[[ReadableSpan], None]) -> None:
        self.judge = judge
        self.open_spans = OpenSpans()
        self.shield = Shield()

    def mark_layer(self, span: Span) -> None:
        """Do nothing: no call of ours is open."""

    def mark_counted(self, span: ReadableSpan, tool: str) -> None:
        """Do nothing: no call was counted yet."""

    def close_turn_of(self, span: ReadableSpan) -> None:
        """Do nothing: there is no turn."""
