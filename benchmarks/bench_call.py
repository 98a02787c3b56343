"""Measure a guarded call and a bare span in one run.

    python -m benchmarks.bench_call            # all
    python -m benchmarks.bench_call --quick    # fewer rounds

All cases take turns, round by round, so that a busy machine slows all of them. A figure is the median over the
rounds, a ratio the median of the ratios of the rounds. Every call has new arguments of 180 bytes and a new result of
2 KB: there are no repeats, because nearly all calls are none. The exporter drops all spans.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import subprocess
import sys
from contextlib import contextmanager
from itertools import count
from time import thread_time
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from otel_loopguard import semconv
from otel_loopguard.core.model import Outcome, ToolCall
from otel_loopguard.instrumentation.functions.decorator import call
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime
from otel_loopguard.instrumentation.turn_api import turn
from otel_loopguard.telemetry.processor import LoopGuardSpanProcessor
from otel_loopguard.telemetry.providers import Attachments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.trace import Tracer

NUMBERS = count()
PADDING = "x" * 120
RESULT = "the quick brown fox jumps over the lazy dog " * 46
PERIOD = 44
"""Results that differ only in a number would be one answer, again and again, and are compared at length."""
KNOWN = ("read_file",)


class Nowhere(SpanExporter):
    """Drops everything."""

    def export(self, spans: Any) -> SpanExportResult:  # noqa: ARG002 - the SDK's signature
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass


def provider(sampler: Any = ALWAYS_ON) -> TracerProvider:
    """A tracer provider with a batch processor, as in programs."""
    made = TracerProvider(sampler=sampler)
    made.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=100_000))
    return made


def arguments() -> dict[str, Any]:
    """New arguments of 180 bytes."""
    return {"path": f"/src/app/{next(NUMBERS)}.py", "start": 10, "end": 200, "pattern": PADDING}


def read_file(**_: Any) -> str:
    """A tool that costs nothing, with a result of 2 KB whose words differ from those of the last one."""
    number = next(NUMBERS)
    place = number % PERIOD
    return f"{RESULT[place:]}{number}{RESULT[:place]}"


def in_a_span(tracer: Tracer, run: Callable[[], Any]) -> Any:
    """Run in a span with the same attributes as ours, at its start and at its end."""
    with tracer.start_as_current_span(
        "execute_tool read_file",
        attributes={
            semconv.OPERATION_NAME: "execute_tool",
            semconv.TOOL_NAME: "read_file",
            semconv.TOOL_TYPE: "function",
            semconv.TURN_ID: "0123456789ab-1",
            semconv.TURN_SOURCE: "explicit",
        },
    ) as span:
        span.set_attributes(
            {
                semconv.TOOL_KIND: "read",
                semconv.CALL_INDEX: 3,
                semconv.ARGUMENTS_HASH: "blake2b-64:0123456789abcdef",
                semconv.TOOL_REGISTERED: True,
            }
        )
        result = run()
        span.set_attributes(
            {
                semconv.OUTCOME: "executed",
                semconv.RESULT_HASH: "blake2b-64:0123456789abcdef",
                semconv.RESULT_SAMENESS: "first",
            }
        )
    return result


class Cases:
    """The measured cases; each is called many times, without arguments."""

    def __init__(self) -> None:
        self._bare = provider().get_tracer("bare")
        self._plain = provider()
        self._reader = InMemoryMetricReader()
        meters = MeterProvider([self._reader])
        self._runtimes = {
            name: Runtime(tracer_provider=made, meter_provider=meter_provider)
            for name, made, meter_provider in (
                ("recorded", provider(), meters),
                ("sampled out", provider(ALWAYS_OFF), meters),
            )
        }
        self._turn = self._runtimes["recorded"].guard.turn()

    def bare_span(self) -> None:
        """A call in a program that only traces its tools."""
        given = arguments()
        in_a_span(self._bare, lambda: read_file(**given))

    def begin_and_end(self) -> None:
        """The judgement alone, without telemetry."""
        made = ToolCall("read_file", arguments(), None, KNOWN)
        self._turn.begin(made)
        self._turn.end(made, Outcome(read_file()))

    def guarded(self) -> None:
        """A guarded call in the active runtime."""
        call("read_file", arguments(), read_file, known_tools=KNOWN)

    def collect(self) -> None:
        """Collect the metrics, as an exporter does in a thread of its own."""
        self._reader.get_metrics_data()

    @contextmanager
    def using(self, name: str) -> Iterator[None]:
        """Activate this runtime, in a turn."""
        before = active_runtime.instrumented
        active_runtime.put(self._runtimes[name])
        with turn():
            yield
        active_runtime.put(before)


def measure(function: Callable[[], Any], calls: int) -> float:
    """Microseconds of this thread's processor time for a call, without the time of other programs."""
    gc.collect()
    gc.disable()
    started = thread_time()
    for _ in range(calls):
        function()
    spent = thread_time() - started
    gc.enable()
    return spent / calls * 1e6


def side_by_side(rounds: int, calls: int) -> dict[str, list[float]]:
    """Measure each case in each round."""
    cases = Cases()
    figures: dict[str, list[float]] = {}

    def note(name: str, figure: float) -> None:
        figures.setdefault(name, []).append(figure)

    for _ in range(rounds):
        note("bare span, same attributes", measure(cases.bare_span, calls))
        note("Turn.begin + Turn.end", measure(cases.begin_and_end, calls))
        for name in ("recorded", "sampled out"):
            with cases.using(name):
                note(f"guarded call, {name}", measure(cases.guarded, calls))
            cases.collect()
        note("our processor on another span", processor_cost(calls))
    return figures


def processor_cost(calls: int) -> float:
    """The cost of our processor's two methods for a span that is no tool call."""
    runtime = Runtime(tracer_provider=provider())
    attachments = Attachments()
    attachments.receiver = runtime.receiver
    processor: SpanProcessor = LoopGuardSpanProcessor(attachments)
    with provider().get_tracer("app").start_as_current_span("other", attributes={"http.method": "GET"}) as span:
        return measure(lambda: (processor.on_start(span, None), processor.on_end(span)), calls)  # type: ignore[arg-type]  # any span


def import_cost(rounds: int) -> float:
    """Milliseconds of ``import otel_loopguard`` in a new process."""
    code = "import time; t = time.perf_counter(); import otel_loopguard; print((time.perf_counter() - t) * 1e3)"
    took = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(rounds)
    ]
    return statistics.median(took)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rounds, calls = (5, 1_000) if quick else (15, 3_000)
    figures = side_by_side(rounds, calls)
    bare = figures["bare span, same attributes"]
    print(f"{'case':44} {'median us':>10} {'to bare span':>13}")
    for name, values in figures.items():
        ratio = statistics.median(value / base for value, base in zip(values, bare, strict=True))
        print(f"{name:44} {statistics.median(values):10.1f} {ratio:13.2f}")
    print(f"\nimport otel_loopguard: {import_cost(5):.1f} ms")


if __name__ == "__main__":
    main()
