"""Measure guarded calls beside bare spans, and our processor on other spans: python -m benchmarks.performance.call.

Every call has new arguments of 180 bytes and a new result of 2 KB, which are made before the clock runs: there are no
repeats, because nearly all calls are none. A batch processor takes the spans, and its exporter drops them.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from benchmarks.harness import Goal, Row, Section, compared, interleaved, main, measure, measure_each, times
from benchmarks.workload import (
    TOOL,
    TURN,
    arguments,
    bare_span,
    provider,
    result,
)
from otel_loopguard import call, semconv, tool, turn
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime
from otel_loopguard.telemetry.processor import LoopGuardSpanProcessor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from opentelemetry.util.types import Attributes

    from benchmarks.harness import Rounds

KNOWN = (TOOL,)
TASKS = 100
BARE = "bare span, its 12 attributes given at its start"
COLLECTED = "guarded call, its metrics at the next collection"
"""What the exporter's thread does later, and is in no other figure of a guarded call."""
results: list[str] = []
"""Made before the clock runs; a tool takes the last one."""


def read_file(**_: Any) -> str:
    """Return the next result: a tool that costs nothing."""
    return results.pop()


async def read_file_async(**_: Any) -> str:
    """Do the same in a task."""
    return results.pop()


class Cases:
    """The measured cases. Each measures some calls and returns microseconds for one."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._tracers = bare, recorded, sampled_out = provider(), provider(), provider(ALWAYS_OFF)
        self._tracer = bare.get_tracer("bare")
        self._reader = InMemoryMetricReader()
        meters = MeterProvider([self._reader])
        self._recorded = Runtime(tracer_provider=recorded, meter_provider=meters)
        self._sampled_out = Runtime(tracer_provider=sampled_out, meter_provider=meters)
        self._decorated, self._decorated_async = tool(read_file), tool(read_file_async)
        self._loop = asyncio.new_event_loop()
        self._runtime_before = active_runtime.instrumented

    def close(self) -> None:
        """Leave no thread, no loop and no runtime."""
        active_runtime.put(self._runtime_before)
        self._loop.close()
        for one in self._tracers:
            one.shutdown()

    def sync_cases(self) -> dict[str, Callable[[], float]]:
        """Calls one after the other, in one turn."""
        return {
            BARE: lambda: self._calls_of(self._bare),
            "guarded call": lambda: self._guarded(self._recorded, self._call),
            "guarded call, sampled out": lambda: self._guarded(self._sampled_out, self._call),
            "`@tool`": lambda: self._guarded(self._recorded, lambda given: self._decorated(**given)),
            COLLECTED: self._collected,
        }

    def async_cases(self) -> dict[str, Callable[[], float]]:
        """Calls of tasks, 15 of each. A guarded task opens a turn; the base has nothing of ours."""
        cases: dict[str, Callable[[], float]] = {}
        for tasks in (1, TASKS):
            bare = partial(self._tasks, self._await_bare, tasks, nullcontext)
            cases[f"async bare span, tasks at once: {tasks}"] = bare
            cases[f"async `@tool`, tasks at once: {tasks}"] = partial(self._awaited, tasks)
        return cases

    def _bare(self, given: dict[str, Any]) -> None:
        with bare_span(self._tracer):
            read_file(**given)

    def _call(self, given: dict[str, Any]) -> None:
        call(TOOL, given, read_file, known_tools=KNOWN)

    async def _await_bare(self, given: dict[str, Any]) -> None:
        with bare_span(self._tracer):
            await read_file_async(**given)

    async def _await_tool(self, given: dict[str, Any]) -> None:
        await self._decorated_async(**given)

    def _calls_of(self, function: Callable[[dict[str, Any]], Any]) -> float:
        results[:] = [result() for _ in range(self._calls)]
        return measure_each(function, [arguments() for _ in range(self._calls)])

    def _guarded(self, runtime: Runtime, function: Callable[[dict[str, Any]], Any]) -> float:
        active_runtime.put(runtime)
        with turn():
            figure = self._calls_of(function)
        self._reader.get_metrics_data()  # as an exporter does in a thread of its own
        return figure

    def _collected(self) -> float:
        active_runtime.put(self._recorded)
        with turn():
            self._calls_of(self._call)
        return measure(self._reader.get_metrics_data, 1) / self._calls

    def _awaited(self, tasks: int) -> float:
        active_runtime.put(self._recorded)
        figure = self._tasks(self._await_tool, tasks, turn)
        self._reader.get_metrics_data()
        return figure

    def _tasks(
        self,
        function: Callable[[dict[str, Any]], Any],
        tasks: int,
        around: Callable[[], AbstractContextManager[object]],
    ) -> float:
        async def agent(calls: list[dict[str, Any]]) -> None:
            with around():
                for given in calls:
                    await function(given)

        async def agents(batch: list[list[dict[str, Any]]]) -> None:
            await asyncio.gather(*map(agent, batch))

        batches = [
            [[arguments() for _ in range(TURN)] for _ in range(tasks)]
            for _ in range(max(1, self._calls // TURN // tasks))
        ]
        results[:] = [result() for _ in range(len(batches) * tasks * TURN)]
        return measure_each(lambda batch: self._loop.run_until_complete(agents(batch)), batches) / tasks / TURN


def of_calls(*, quick: bool) -> Section:
    """Measure guarded calls."""
    cases = Cases(450 if quick else 900)
    rounds = 7 if quick else 21
    found = interleaved(cases.sync_cases(), rounds)
    awaited = interleaved(cases.async_cases(), rounds)
    cases.close()
    rows = compared(found, BARE, "bare span", {"guarded call": times(1.75), "guarded call, sampled out": Goal(18)})
    for tasks in (1, TASKS):
        base, ours = (awaited[f"async {what}, tasks at once: {tasks}"] for what in ("bare span", "`@tool`"))
        rows.append(Row(f"async bare span, {tasks} at once", base))
        rows.append(Row(f"async `@tool`, {tasks} at once", ours, base=base, base_name="async bare span"))
    return Section(
        "A guarded call",
        "The program calls a function itself. Both spans have the same 12 attributes. A guarded task opens a turn for "
        "its 15 calls. Metrics of calls are passed to the SDK at the next collection, in the exporter's thread: what "
        "that takes for a call is in a row of its own.",
        rows,
    )


# --- spans that are no tool calls --------------------------------------------------------------------------------


class Idle(SpanProcessor):
    """Do nothing, which costs two calls."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Do nothing."""

    def on_end(self, span: Any) -> None:
        """Do nothing."""


class Look(Idle):
    """The simplest filter: read one attribute."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:  # noqa: ARG002 - the SDK's signature
        """Look."""
        span.attributes.get(semconv.OPERATION_NAME)


REQUEST: Attributes = {
    "http.request.method": "GET",
    "url.full": "http://127.0.0.1/items/17",
    "server.address": "127.0.0.1",
    "server.port": 80,
    "network.protocol.version": "1.1",
    "http.response.status_code": 200,
    "user_agent.original": "benchmark",
    "http.route": "/items",
}


def callbacks(processor: SpanProcessor, *, agent: bool) -> Callable[[], None]:
    """Both callbacks for one span of an HTTP client, below an agent's span or another."""
    tracer = TracerProvider().get_tracer("bench")
    outer = tracer.start_span("agent", attributes={semconv.OPERATION_NAME: semconv.OPERATION_INVOKE_AGENT})
    parent: Any = outer if agent else tracer.start_span("request")
    processor.on_start(parent, None)
    context = trace.set_span_in_context(parent)
    live: Any = tracer.start_span("GET /items", context, attributes=REQUEST)
    ended = live._readable_span()

    def run() -> None:
        processor.on_start(live, context)
        processor.on_end(ended)

    return run


def of_other_spans(*, quick: bool) -> Section:
    """Measure our processor on spans of an HTTP client."""
    runtime = Runtime(tracer_provider=TracerProvider(), meter_provider=MeterProvider())
    ours = LoopGuardSpanProcessor(runtime)
    rows = []
    for place, agent in (("below another span", False), ("below an agent's span", True)):
        runs = {name: callbacks(one, agent=agent) for name, one in (("idle", Idle()), ("look", Look()), ("ours", ours))}
        found = interleaved({name: partial(measure, run, 2_000) for name, run in runs.items()}, 9 if quick else 41)
        look, own = above_idle(found, "look"), above_idle(found, "ours")
        rows.append(Row(f"a look at one attribute, {place}", look))
        rows.append(Row(f"our processor, {place}", own, base=look, base_name="look", goal=times(1.5)))
    return Section(
        "Spans that are no tool calls",
        "Added to a processor that does nothing, for a span of an HTTP client with eight attributes.",
        rows,
    )


def above_idle(found: Rounds, name: str) -> list[float]:
    """Microseconds above the processor that does nothing, of each round."""
    return [value - idle for value, idle in zip(found[name], found["idle"], strict=True)]


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure calls, and spans that are none."""
    yield of_calls(quick=quick)
    yield of_other_spans(quick=quick)


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
