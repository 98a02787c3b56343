"""Watch the spans of other instrumentations, with nothing patched."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from otel_loopguard import semconv
from otel_loopguard.instrumentation.process_start import process_start
from otel_loopguard.instrumentation.runtime import Runtime
from otel_loopguard.testing import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan


@contextmanager
def watching(**settings: Any) -> Iterator[Recording]:
    """Attach our span processor only, to the provider of this recording."""
    recording = Recording()
    recording.runtime = Runtime(
        tracer_provider=recording.tracer_provider,
        meter_provider=recording.meter_provider,
        logger_provider=recording.logger_provider,
        **settings,
    )
    before, process_start.watcher = process_start.watcher, recording.runtime.watcher
    recording.runtime.start()
    try:
        yield recording
    finally:
        process_start.watcher = before
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0, "a fault of otel_loopguard itself"


def all_spans(recording: Recording) -> list[ReadableSpan]:
    """Return all spans, ours and those of others."""
    return list(recording._spans.get_finished_spans())


def written_trips(recording: Recording) -> list[tuple[str, str, str, str]]:
    """Return the trips on all spans: the name of the span, the mode, the tool, the action."""
    return [
        (span.name, str(attributes[semconv.MODE]), str(attributes[semconv.TOOL_NAME]), str(attributes[semconv.ACTION]))
        for span in all_spans(recording)
        for event in span.events
        if event.name == semconv.EVENT_TRIP and (attributes := event.attributes or {})
    ]


def calls(recording: Recording) -> float:
    """Return the number of tool calls that were counted."""
    return recording.counted(semconv.METRIC_TOOL_CALLS)


def executions(recording: Recording) -> list[str]:
    """Return the names of our ``execute_tool`` spans."""
    return [
        span.name
        for span in recording.spans
        if (span.attributes or {}).get(semconv.OPERATION_NAME) == semconv.OPERATION_EXECUTE_TOOL
    ]
