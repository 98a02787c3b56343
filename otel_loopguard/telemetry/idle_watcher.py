"""Watch the spans of a process that has used no agent yet: the guard is on, and its parts are not made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.shield import Shield
from otel_loopguard.spans.open_spans import OpenSpans

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.sdk.trace import ReadableSpan, Span


class WaitingWatcher:
    """Keeps the open spans for the watcher that follows, and passes the first tool call to ``judge``."""

    marks: Final[Mapping[int, Any]] = {}
    """There are none: a span is marked when a call is counted."""
    live: Final = 0
    """There is no turn."""

    def __init__(self, judge: Callable[[ReadableSpan], None]) -> None:
        self.judge = judge
        self.open_spans = OpenSpans()
        self.shield = Shield()

    def mark_layer(self, span: Span) -> None:
        """Do nothing: no call of ours is open."""

    def mark_counted(self, span: ReadableSpan, tool: str) -> None:
        """Do nothing, as above."""

    def close_turn_of(self, span: ReadableSpan) -> None:
        """Do nothing: there is no turn."""
