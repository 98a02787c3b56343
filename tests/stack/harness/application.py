"""An application as the stack sees one: its spans, events and metrics, made without an agent.

What it emits follows the names of ``semconv``; where a scenario needs telemetry that a well-behaved agent makes only
once in a while (late trips, foreign spans full of prompts), this makes it at once.
"""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics import Counter as CounterInstrument
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import set_span_in_context

from otel_loopguard import semconv

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.trace import Span

    from .collector import Collector

# A sample of the data that must not be exported: a file or metric that contains it is a leak.
SECRET = "s3cret-argument"
TOOL = "read_file"
DELTA: dict[type, AggregationTemporality] = {
    CounterInstrument: AggregationTemporality.DELTA,
    Histogram: AggregationTemporality.DELTA,
}


class CountingExporter(SpanExporter):
    """Counts the batches that another exporter is given."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.batches = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Count the batch, and export it."""
        self.batches += 1
        return self._exporter.export(spans)

    def shutdown(self) -> None:
        """Shut the other exporter down."""
        self._exporter.shutdown()


class Application:
    """One process of one service, with a loopguard tracer and a tracer of another library."""

    def __init__(
        self,
        collector: Collector,
        service: str = "agent",
        *,
        protocol: str = "grpc",
        metrics: bool = True,
        deltas: bool = False,
        span_queue: int = 2048,
        patience: int = 60,
    ) -> None:
        identity = {"service.name": service, "service.instance.id": uuid.uuid4().hex}
        resource = Resource.create(identity | {"deployment.note": SECRET})
        span_exporter, metric_exporter = _exporters(collector, protocol, DELTA if deltas else {}, patience)
        self._tracers = TracerProvider(resource=resource)
        self._spans = CountingExporter(span_exporter)
        self._tracers.add_span_processor(
            BatchSpanProcessor(self._spans, max_queue_size=span_queue, schedule_delay_millis=200)
        )
        self._meters = MeterProvider(
            [PeriodicExportingMetricReader(metric_exporter, export_interval_millis=1000)] if metrics else [], resource
        )
        self.tracer = self._tracers.get_tracer(semconv.SCOPE)
        self.foreign = self._tracers.get_tracer("somebody.else", attributes={"note": SECRET})
        self._make_instruments()
        self.trips: Counter[str] = Counter()
        self.looping_traces: set[str] = set()
        self.other_traces: set[str] = set()

    def turn(self, *modes: str, calls: int = 3) -> None:
        """One trace: a foreign root and ``calls`` tool spans, the last of which trip in these modes."""
        with self.foreign.start_as_current_span("invoke_agent", attributes={"gen_ai.prompt": SECRET}) as root:
            for _ in range(calls - len(modes)):
                with self.call():
                    pass
            for mode in modes:
                with self.call() as span:
                    self.trip(span, mode)
        self._remember(root, looping=bool(modes))
        self.turn_calls.record(calls)

    @contextmanager
    def call(self, tool: str = TOOL, outcome: str = "executed") -> Iterator[Span]:
        """One tool call: our span with a foreign one in it, both full of what must not leave."""
        attributes = {semconv.OPERATION_NAME: "execute_tool", semconv.TOOL_NAME: tool, semconv.ARGUMENTS_HASH: "00"}
        leaks = {"gen_ai.tool.call.arguments": SECRET, "gen_ai.tool.call.result": SECRET, "input.value": SECRET}
        with self.tracer.start_as_current_span(
            f"{semconv.SPAN_EXECUTE_TOOL} {tool}", attributes=attributes | leaks
        ) as span:
            with self.foreign.start_as_current_span(f"http {SECRET}", attributes=leaks):
                pass
            span.add_event("exception", {"exception.message": SECRET})
            yield span
        self.tool_calls.add(1, {semconv.TOOL_NAME: tool, semconv.OUTCOME: outcome})
        self.check_duration.record(5e-6)

    def trip(self, span: Span, mode: str, tool: str = TOOL, verdict: str = "block", action: str = "block") -> None:
        """A trip on a span, with its event and its counts."""
        labels = {semconv.MODE: mode, semconv.VERDICT: verdict, semconv.ACTION: action}
        span.set_attributes(labels)
        span.add_event(semconv.EVENT_TRIP, labels | {semconv.TOOL_NAME: tool, semconv.COUNT: 3, "note": SECRET})
        context = set_span_in_context(span)
        self.trip_counter.add(1, labels, context)
        self.tool_trips.add(1, {semconv.TOOL_NAME: tool, semconv.MODE: mode}, context)
        self.trips[mode] += 1

    def model_request(self, step: str, tokens: int | None, cost: float | None = None) -> None:
        """Count a model request: a step of a ``loop``, or ``work``. Without tokens its usage is unknown."""
        labels = {semconv.REQUEST_MODEL: "gpt-5", semconv.LOOP_OR_WORK: step}
        self.model_requests.add(1, labels | {semconv.USAGE: "unknown" if tokens is None else "known"})
        if tokens is not None:
            self.model_tokens.add(tokens, labels | {semconv.TOKEN_TYPE: "input"})
        if cost is not None:
            self.model_cost.add(cost, labels)

    @property
    def exports(self) -> int:
        """The number of batches of spans that were sent, or are being sent."""
        return self._spans.batches

    def flush(self) -> None:
        """Send everything that waits."""
        self._tracers.force_flush(10_000)
        self._meters.force_flush(10_000)

    def close(self) -> None:
        """Send everything that waits, and end."""
        self._tracers.shutdown()
        self._meters.shutdown()

    def _remember(self, root: Span, *, looping: bool) -> None:
        trace_id = f"{root.get_span_context().trace_id:032x}"
        (self.looping_traces if looping else self.other_traces).add(trace_id)

    def _make_instruments(self) -> None:
        meter = self._meters.get_meter(semconv.SCOPE)
        self.trip_counter = meter.create_counter(semconv.METRIC_TRIPS, "{trip}")
        self.tool_trips = meter.create_counter(semconv.METRIC_TOOL_TRIPS, "{trip}")
        self.recoveries = meter.create_counter(semconv.METRIC_RECOVERIES, "{trip}")
        self.tool_calls = meter.create_counter(semconv.METRIC_TOOL_CALLS, "{call}")
        self.turn_calls = meter.create_histogram(semconv.METRIC_TURN_TOOL_CALLS, "{call}")
        self.check_duration = meter.create_histogram(semconv.METRIC_CHECK_DURATION, "s")
        self.turns_live = meter.create_up_down_counter(semconv.METRIC_TURNS_LIVE, "{turn}")
        self.model_tokens = meter.create_counter(semconv.METRIC_MODEL_TOKENS, "{token}")
        self.model_requests = meter.create_counter(semconv.METRIC_MODEL_REQUESTS, "{request}")
        self.model_cost = meter.create_counter(semconv.METRIC_MODEL_COST, "{currency}")
        self.internal_errors = meter.create_counter(semconv.METRIC_INTERNAL_ERRORS, "{error}")


def _exporters(
    collector: Collector, protocol: str, temporality: dict[type, AggregationTemporality], patience: int
) -> tuple[Any, Any]:
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans

        endpoint = f"127.0.0.1:{collector.grpc}"
        spans = GrpcSpans(endpoint=endpoint, insecure=True, timeout=patience)
        return spans, GrpcMetrics(endpoint=endpoint, insecure=True, preferred_temporality=temporality)
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans

    endpoint = f"http://127.0.0.1:{collector.http}/v1"
    metrics = HttpMetrics(endpoint=f"{endpoint}/metrics", preferred_temporality=temporality)
    return HttpSpans(endpoint=f"{endpoint}/traces", timeout=patience), metrics
