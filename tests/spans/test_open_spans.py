"""The number of open spans that are kept is bounded."""

from __future__ import annotations

from otel_loopguard.spans.open_spans import MOST_SPANS, OpenSpans
from otel_loopguard.testing import guarded


def test_spans_that_never_end_are_bounded() -> None:
    """A program that never ends its spans does not use more and more memory."""
    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("app")
        spans = OpenSpans()
        for _ in range(MOST_SPANS + 10):
            spans.started(tracer.start_span("agent", attributes={"gen_ai.operation.name": "invoke_agent"}))  # type: ignore[arg-type]
        assert len(spans) == MOST_SPANS
        spans.clear()
        assert spans.agent() is None
