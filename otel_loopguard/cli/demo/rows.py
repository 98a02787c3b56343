"""Read each call of a story back from its span, with the guard's decision about it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.sdk.trace import SpanProcessor

from otel_loopguard import semconv
from otel_loopguard.cli.demo.reasons import reason_of
from otel_loopguard.turns.scope import CALL

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

    from otel_loopguard.cli.demo.stories import Story
    from otel_loopguard.errors import ToolLoopError
    from otel_loopguard.instrumentation.call import GuardedCall
    from otel_loopguard.testing.agent import Ask


class Row(NamedTuple):
    """One call: the model's request, the guard's decision with its reason, and the text for the model."""

    number: int
    ask: Ask
    outcome: str
    """A failed call whose result carries a sentence is ``nudged`` here: the guard's part in it is what is shown."""
    mode: str
    """The loop that was detected, or nothing."""
    reason: str
    text: str
    at: float
    in_loop: bool
    """The call was refused, or was a repeat without news."""

    @property
    def refused(self) -> bool:
        """True if the tool did not run."""
        return self.outcome in semconv.REFUSED_OUTCOMES


class StoryResult(NamedTuple):
    """A story, run to its end."""

    story: Story
    rows: list[Row]
    error: ToolLoopError | None
    """The error with which the guard ended the run, if it did."""

    @property
    def as_expected(self) -> bool:
        """True if a stuck agent was stopped, or a working one not hindered."""
        return any(row.refused for row in self.rows) != self.story.works


class SpanLog(SpanProcessor):
    """Keeps the guard's spans of tool calls, in the order in which they end."""

    def __init__(self) -> None:
        self.ended: deque[tuple[ReadableSpan, GuardedCall | None]] = deque(maxlen=1_000)
        self._calls: dict[int, GuardedCall] = {}

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Keep the call that the span is of."""
        call: Any = None if parent_context is None else parent_context.get(CALL)
        if call is not None:
            self._calls[span.context.span_id] = call

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span that records the outcome of a call."""
        call = self._calls.pop(span.context.span_id, None)
        if span.attributes and semconv.OUTCOME in span.attributes:
            self.ended.append((span, call))


def row_of(number: int, ask: Ask, span: ReadableSpan, call: GuardedCall | None, text: str) -> Row:
    """Make the row of a call from its span and the text that the model reads."""
    attributes: Any = span.attributes
    trip: Any = next((event.attributes for event in span.events if event.name == semconv.EVENT_TRIP), {})
    is_nudged = trip.get(semconv.ACTION) == "nudge" and not attributes.get(semconv.UNDELIVERED)
    return Row(
        number,
        ask,
        outcome="nudged" if is_nudged else str(attributes[semconv.OUTCOME]),
        mode=str(trip.get(semconv.MODE, "")),
        reason=reason_of(None if call is None else call.decision.record, trip),
        text=text,
        at=(span.start_time or 0) / 1e9,
        in_loop=call is not None and call.decision.is_loop_step,
    )
