"""Call tools from 64 threads, and compare every count with the sum of the threads' own counts."""

from __future__ import annotations

import threading
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import SpanProcessor

import otel_loopguard as loopguard
from benchmarks.reliability.result import Row, most_memory
from otel_loopguard import semconv
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan

TITLE = "64 threads"
ABOUT = """64 threads draw turns, tools, arguments and results, and count their calls, turns and refusals. *Broken*:
the difference to what the spans, the events and the metrics count."""
THREADS = 64
CALLS = 1_200_000
BLOCKED = {"loopguard__outcome": "blocked"}
TOOLS = ("read_file", "search", "status")


class CountingProcessor(SpanProcessor):
    """Counts the finished spans of calls and their events, and keeps none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    def on_end(self, span: ReadableSpan) -> None:
        """Count one span."""
        events = sum(event.name == semconv.EVENT_TRIP for event in span.events)
        with self._lock:
            self.counts["spans"] += span.name.startswith(semconv.OPERATION_EXECUTE_TOOL)
            self.counts["events"] += events


def measure(seed: int, scale: float) -> Iterator[Row]:
    """Run the threads, and compare."""
    each = max(20, int(CALLS * scale) // THREADS)
    totals: Counter[str] = Counter()
    slowest = [0.0] * THREADS
    lock = threading.Lock()

    def work(number: int) -> None:
        random, counts = Random(seed * THREADS + number), Counter[str]()
        while counts["calls"] < each:
            counts["turns"] += 1
            with loopguard.turn():
                for _ in range(random.randint(1, 20)):
                    counts["calls"] += 1
                    began = time.perf_counter()
                    refused = _call(random)
                    slowest[number] = max(slowest[number], time.perf_counter() - began)
                    counts["refused"] += refused
        with lock:
            totals.update(counts)

    with guarded() as recording:
        processor = CountingProcessor()
        recording._spans.shutdown()  # the in-memory exporter of the kit would keep every span
        recording.tracer_provider.add_span_processor(processor)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counted = {
            "spans": (processor.counts["spans"], totals["calls"]),
            "calls": (recording.counted(semconv.METRIC_TOOL_CALLS), totals["calls"]),
            "turns": (recording.counted(semconv.METRIC_TURN_TOOL_CALLS), totals["turns"]),
            "refused calls": (
                recording.counted(semconv.METRIC_TOOL_CALLS, loopguard__outcome="blocked"),
                totals["refused"],
            ),
            "events, against the metric of trips": (
                processor.counts["events"],
                int(recording.counted(semconv.METRIC_TRIPS)),
            ),
        }
        live = recording.runtime.guard.live if recording.runtime else 0
        faults = recording.counted(semconv.METRIC_INTERNAL_ERRORS)
    for label, (found, true) in counted.items():
        yield Row(label, int(true), abs(int(found - true)))
    yield Row("faults of this package", totals["calls"], int(faults))
    yield Row(
        "turns left in memory",
        totals["turns"],
        live,
        f"slowest call {max(slowest) * 1e3:.0f} ms, {most_memory():.0f} MB",
    )


def _call(random: Random) -> int:
    """Make one call that may repeat an earlier one. Return 1 if it is refused."""
    tool, number = random.choice(TOOLS), random.randint(1, 4)
    read: Any = loopguard.call(tool, {"n": number}, lambda n: f"result {n}", known_tools=TOOLS)
    return int("tool_loop_detected" in read)
