"""The spans that have started and not ended, by id. A processor finds the ancestors of a span here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from otel_loopguard.semconv import OPERATION_INVOKE_AGENT, OPERATION_NAME
from otel_loopguard.spans.dialects import SpanView

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.sdk.trace import ReadableSpan, Span

MOST_SPANS: Final = 20_000
_DEEPEST = 256


def attributes_of(span: ReadableSpan) -> Mapping[str, Any]:
    """Return a span's attributes without a copy: the SDK's property copies them, or takes a lock, each time."""
    try:
        found: Mapping[str, Any] = span._attributes._dict  # type: ignore[union-attr]  # noqa: SLF001
    except AttributeError:
        return span.attributes or {}
    return found


def view_of(span: ReadableSpan) -> SpanView:
    """Return a span of the SDK in the form that the dialects read."""
    status = span.status
    return SpanView(
        span.name,
        attributes_of(span),
        [(event.name, event.attributes or {}) for event in span.events],
        status.status_code is StatusCode.ERROR,
        status.description,
        span.kind is SpanKind.SERVER,
    )


def id_of(span: ReadableSpan) -> int:
    """Return the span's id; 0 if it has none."""
    context = span.get_span_context()
    return 0 if context is None else context.span_id


class OpenSpans:
    """The latest 20,000 open spans, by id. A span may never end, so the oldest one goes first."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: dict[int, Span] = {}

    def __len__(self) -> int:
        return len(self._spans)

    def started(self, span: Span) -> None:
        """Add a span that has started."""
        context: Any = span._context  # noqa: SLF001 - half the time of the public accessor; the same below
        self._spans[context.span_id] = span
        if len(self._spans) > MOST_SPANS:
            self._spans.pop(next(iter(self._spans)), None)

    def ended(self, span: ReadableSpan) -> bool:
        """Remove a span that has ended. Return False if it was not known, or was removed before."""
        context: Any = span._context  # noqa: SLF001 - as above
        return self._spans.pop(context.span_id, None) is not None

    def above(self, span: ReadableSpan) -> Span | None:
        """Return the parent span; None if it is not open here."""
        parent: Any = span._parent  # noqa: SLF001 - as above
        return None if parent is None else self._spans.get(parent.span_id)

    def ancestors(self, span: ReadableSpan) -> Iterator[Span]:
        """Yield the ancestors, the nearest first, until one that has ended or is in another process."""
        above = self.above(span)
        for _ in range(_DEEPEST):
            if above is None:
                return
            yield above
            above = self.above(above)

    def agent(self) -> int | None:
        """Return the id of the outermost agent's span around the running code, which is one turn; None without one."""
        if not self._spans:
            return None
        span = self._spans.get(trace.get_current_span().get_span_context().span_id)
        if span is None:
            return None
        agents = [one for one in (span, *self.ancestors(span)) if _is_agent(one)]
        return id_of(agents[-1]) if agents else None

    def clear(self) -> None:
        """Forget all spans, as after a fork: they end in the parent process."""
        self._spans.clear()


def _is_agent(span: ReadableSpan) -> bool:
    return attributes_of(span).get(OPERATION_NAME) == OPERATION_INVOKE_AGENT
