"""The spans that are open now: where a processor, which is told of ended spans only by value, finds their ancestors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace

from otel_loopguard.semconv import OPERATION_INVOKE_AGENT, OPERATION_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.sdk.trace import ReadableSpan, Span

MOST_SPANS: Final = 20_000
_DEEPEST = 256


def attributes_of(span: ReadableSpan) -> Mapping[str, Any]:
    """A span's attributes as they lie: its own property copies them, or takes a lock at each look."""
    try:
        found: Mapping[str, Any] = span._attributes._dict  # type: ignore[union-attr]  # noqa: SLF001
    except AttributeError:
        return span.attributes or {}
    return found


def id_of(span: ReadableSpan) -> int:
    """The span's id."""
    context = span.get_span_context()
    return 0 if context is None else context.span_id


class OpenSpans:
    """Open spans by id, up to a bound: spans that never end would stay for ever, so the oldest go first."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: dict[int, Span] = {}

    def __len__(self) -> int:
        return len(self._spans)

    def started(self, span: Span) -> None:
        """A span has started."""
        context: Any = span._context  # noqa: SLF001 - half the time of asking for it; so below
        self._spans[context.span_id] = span
        if len(self._spans) > MOST_SPANS:
            self._spans.pop(next(iter(self._spans)), None)

    def ended(self, span: ReadableSpan) -> bool:
        """A span has ended; whether it was known, and this is the first to ask."""
        context: Any = span._context  # noqa: SLF001
        return self._spans.pop(context.span_id, None) is not None

    def above(self, span: ReadableSpan) -> Span | None:
        """The span right around this one, if it is open and known."""
        parent: Any = span._parent  # noqa: SLF001 - as below
        return None if parent is None else self._spans.get(parent.span_id)

    def ancestors(self, span: ReadableSpan) -> Iterator[Span]:
        """The open spans around this one, the nearest first; up to one that has ended, or lies elsewhere."""
        above = self.above(span)
        for _ in range(_DEEPEST):
            if above is None:
                return
            yield above
            above = self.above(above)

    def agent(self) -> int | None:
        """The id of the outermost agent span around the running code: it stands for one message of a user."""
        if not self._spans:
            return None
        span = self._spans.get(trace.get_current_span().get_span_context().span_id)
        if span is None:
            return None
        agents = [one for one in (span, *self.ancestors(span)) if _is_agent(one)]
        return id_of(agents[-1]) if agents else None

    def clear(self) -> None:
        """Forget all, as after a fork: the parent ends its own spans."""
        self._spans.clear()


def _is_agent(span: ReadableSpan) -> bool:
    return attributes_of(span).get(OPERATION_NAME) == OPERATION_INVOKE_AGENT
