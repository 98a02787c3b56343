"""An application as the stack sees one: its spans, events and metrics, made without an agent.

Events and metrics are made by the package's own classes. Where a scenario needs telemetry that a well-behaved agent
makes only once in a while (late trips, foreign spans full of prompts), this makes it at once.
"""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context
from opentelemetry.sdk.metrics import Counter as CounterInstrument
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import set_span_in_context

from otel_loopguard import semconv
from otel_loopguard.engine.vocabulary import Action, Trip, Usage
from otel_loopguard.guard.guard import Guard
from otel_loopguard.telemetry.loop_event import event_attributes, tripped_attributes
from otel_loopguard.telemetry.meters import Meters

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
        self.live = 0
        self.meters = Meters(self._meters.get_meter(semconv.SCOPE), lambda: self.live)
        self.watch_refused = self._meters.get_meter(semconv.SCOPE).create_counter(semconv.METRIC_WATCH_REFUSED)
        self._guard = Guard()
        self._turn = self._guard.turn()
        self.trips: Counter[str] = Counter()
        self.reached: set[tuple[str, str, str]] = set()
        """The turn, the mode and the action of each trip."""
        self.looping_traces: set[str] = set()
        self.other_traces: set[str] = set()

    def turn(self, *modes: str, calls: int = 3) -> None:
        """One trace of a new turn: a foreign root and ``calls`` tool spans, the last of which trip in these modes."""
        self._turn = self._guard.turn()
        with self.foreign.start_as_current_span("invoke_agent", attributes={"gen_ai.prompt": SECRET}) as root:
            for _ in range(calls - len(modes)):
                with self.call():
                    pass
            for mode in modes:
                with self.call() as span:
                    self.trip(span, mode)
        self._remember(root, looping=bool(modes))
        self._turn.close()
        self.meters.turn(self._turn.id, calls)

    def begin_turn(self) -> None:
        """Begin a new turn, which goes on."""
        self._turn = self._guard.turn()

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
        context = set_span_in_context(span)
        self.meters.tool_call(tool, outcome, context)
        self.meters.check(5e-6, context)

    def trip(self, span: Span, mode: str, tool: str = TOOL, verdict: str = "block", action: str = "block") -> None:
        """A trip of the latest turn on a span, with its event and its counts."""
        trip = Trip(mode, tool, 3, 3, Action[verdict.upper()], Action[action.upper()])
        first = self._turn.reach(trip)
        span.set_attributes(tripped_attributes(trip))
        span.add_event(semconv.EVENT_TRIP, event_attributes(trip, tool, first) | {"note": SECRET})
        self.meters.trip(self._turn.id, trip, tool, first, set_span_in_context(span))
        self.trips[mode] += 1
        self.reached.add((self._turn.id, mode, action))

    def recover(self, mode: str, action: str) -> None:
        """Count a recovery from a trip."""
        trip = Trip(mode, TOOL, 3, 3, Action.BLOCK, Action[action.upper()])
        self.meters.recovery(self._turn.id, trip, otel_context.get_current())

    def model_request(self, step: str, tokens: int | None, cost: float | None = None) -> None:
        """Count a model request: a step of a ``loop``, or ``work``. Without tokens its usage is unknown."""
        usage = Usage("gpt-5") if tokens is None else Usage("gpt-5", tokens, 0)
        self.meters.model_request(usage, cost, "USD", otel_context.get_current(), is_loop=step == "loop")

    def reply(self, read: int, cached: int, written: int) -> None:
        """Count the tokens of a reply: by kind of step, and as the GenAI conventions do."""
        usage, context = Usage("gpt-5", read, written, cached), otel_context.get_current()
        self.meters.model_request(usage, None, "", context, is_loop=False)
        self.meters.inference(usage, semconv.OPERATION_CHAT, "openai", context)

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
