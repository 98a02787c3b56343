"""Record the spans, metrics and trips of a block of code, and assert on them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_loopguard import semconv
from otel_loopguard.guard.guard import Guard
from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor
from otel_loopguard.instrumentation.process_start import process_start
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime, policy_from_environment
from otel_loopguard.telemetry.settings import Settings

try:
    from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter as InMemoryLogs
except ImportError:  # its name before OpenTelemetry 1.39
    from opentelemetry.sdk._logs.export import InMemoryLogExporter as InMemoryLogs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.sampling import Sampler

    from otel_loopguard.engine.policy.policy import Policy


@dataclass(frozen=True)
class SeenTrip:
    """One trip, as its event ``tool_loop_detected`` has it."""

    mode: str
    verdict: str
    """The action that the rules want, such as ``block``."""
    action: str
    """The action that was taken: the verdict, or ``observe`` or ``nudge`` if the policy allows no more."""
    tool: str
    count: int
    limit: int
    """The count at which the verdict is given."""


class Recording:
    """The telemetry that was exported while the guard was on."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._spans = InMemorySpanExporter()
        self.tracer_provider = TracerProvider(sampler=sampler) if sampler is not None else TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self._metrics = InMemoryMetricReader()
        self.meter_provider = MeterProvider([self._metrics])
        self._logs = InMemoryLogs()  # type: ignore[no-untyped-call]  # the exporter has no type hints
        self.logger_provider = LoggerProvider()
        self.logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        self.runtime: Runtime | None = None
        """The guard that is recorded; None before the block of ``guarded`` has begun."""

    @property
    def spans(self) -> list[ReadableSpan]:
        """The guard's finished spans of tool calls, in the order in which the calls began."""
        ours = [
            span
            for span in self._spans.get_finished_spans()
            if span.instrumentation_scope is not None
            and span.instrumentation_scope.name == semconv.SCOPE
            and semconv.TOOL_NAME in (span.attributes or {})
        ]
        return sorted(ours, key=lambda span: span.start_time or 0)

    @property
    def logs(self) -> list[Any]:
        """The log records, if the settings switch log events on."""
        return [item.log_record for item in self._logs.get_finished_logs()]

    @property
    def outcomes(self) -> list[str]:
        """The outcome of each call, in order: executed, nudged, reused, blocked, aborted, failed or cancelled."""
        return [str((span.attributes or {}).get(semconv.OUTCOME)) for span in self.spans]

    @property
    def trips(self) -> list[SeenTrip]:
        """The detected loops, in order: of calls, and of requests to a model."""
        events = [event for span in self._spans.get_finished_spans() for event in span.events]
        return [
            _seen(event.attributes or {})
            for event in sorted(events, key=lambda event: event.timestamp)
            if event.name == semconv.EVENT_TRIP
        ]

    def counted(self, metric: str, **attributes: str) -> float:
        """Return the sum of a counter, or the number of values of a histogram, over all series with these attributes.

        Write ``__`` for the dots of a name: ``recording.counted("loopguard.trips", loopguard__action="block")``.
        """
        wanted = {name.replace("__", "."): value for name, value in attributes.items()}
        return sum(
            getattr(point, "value", getattr(point, "count", 0))
            for point in self.points(metric)
            if all(point.attributes.get(name) == value for name, value in wanted.items())
        )

    def points(self, metric: str) -> list[Any]:
        """Return all data points of a metric; none if it was not recorded."""
        data = self._metrics.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric
            for point in one.data.data_points
        ]


def _seen(attributes: Any) -> SeenTrip:
    return SeenTrip(
        mode=attributes[semconv.MODE],
        verdict=attributes[semconv.VERDICT],
        action=attributes[semconv.ACTION],
        tool=attributes[semconv.TOOL_NAME],
        count=attributes[semconv.COUNT],
        limit=attributes[semconv.LIMIT],
    )


@contextmanager
def guarded(
    policy: Policy | None = None,
    *,
    settings: Settings | None = None,
    sampler: Sampler | None = None,
    clock: Callable[[], float] | None = None,
) -> Iterator[Recording]:
    """Switch the guard on for a block, and record its telemetry. A guard that is on already is replaced until the end.

    ``policy`` and ``settings`` are those of the environment if they are None. ``clock`` returns seconds, in place of
    the guard's own: a test can let a call wait without waiting itself. ``sampler`` chooses the spans to record.
    """
    recording = Recording(sampler)
    process_start.wake()
    before = active_runtime.instrumented
    recording.runtime = Runtime(
        policy if clock is None else None,
        guard=None
        if clock is None
        else Guard(policy if policy is not None else policy_from_environment(), clock=clock),
        settings=(settings or Settings.from_environment(os.environ))._replace(summary=False),
        tracer_provider=recording.tracer_provider,
        meter_provider=recording.meter_provider,
        logger_provider=recording.logger_provider,
    )
    instrumentor = LoopGuardInstrumentor()
    if before is None:
        instrumentor.instrument(runtime=recording.runtime)
    else:
        active_runtime.put(recording.runtime)
    try:
        yield recording
    finally:
        if before is None:
            instrumentor.uninstrument()
        else:
            active_runtime.put(before)


def assert_trips(
    recording: Recording, mode: str, *, action: str | None = None, tool: str | None = None, times: int | None = None
) -> list[SeenTrip]:
    """Assert that there are trips of this mode, action and tool (None: any), and return them.

    ``times`` is their exact number; without it one trip is enough.
    """
    fitting = [
        trip
        for trip in recording.trips
        if trip.mode == mode and action in (None, trip.action) and tool in (None, trip.tool)
    ]
    if not fitting or (times is not None and len(fitting) != times):
        wanted = f"{times if times is not None else 'at least one'} x {mode}"
        raise AssertionError(f"expected {wanted} (action={action}, tool={tool}); seen: {recording.trips or 'no trip'}")
    return fitting


def assert_no_trip(recording: Recording) -> None:
    """Assert that the guard detected no loop in the recorded block."""
    if recording.trips:
        raise AssertionError(f"expected no trip; seen: {recording.trips}")
