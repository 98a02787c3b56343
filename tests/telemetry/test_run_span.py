"""The span of an agent's run: a turn is one trace."""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph")

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from otel_loopguard import semconv
from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor
from otel_loopguard.instrumentation.runtime import Runtime
from otel_loopguard.telemetry.run_span import RunSpan
from otel_loopguard.testing import Ask, Toolbox
from otel_loopguard.turns.scope import Scope
from tests.scripted.langchain import DRIVERS

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = [[Ask("read_file", {"path": "a.txt"})], [Ask("list_folder", {"path": "b"})]]


class Exported:
    """A provider with an exporter in memory, and the guard on it."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def run(self, driver: str = "agent-invoke") -> None:
        """Run an agent under the guard."""
        instrumentor = LoopGuardInstrumentor()
        instrumentor.instrument(runtime=Runtime(tracer_provider=self.provider))
        try:
            DRIVERS[driver](Toolbox().functions(), STEPS)
        finally:
            instrumentor.uninstrument()

    @property
    def spans(self) -> dict[str, list]:
        """The spans by the first word of their names."""
        found: dict[str, list] = {}
        for span in self.exporter.get_finished_spans():
            found.setdefault(span.name.split()[0], []).append(span)
        return found


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_calls_of_a_run_are_one_trace(driver: str) -> None:
    """The span of the run is their root, and nothing is current after the run."""
    exported = Exported()
    exported.run(driver)
    spans = exported.spans
    if "invoke_agent" not in spans:
        pytest.skip("a loop by hand has no run")
    (run,) = spans["invoke_agent"]
    calls = spans["execute_tool"]
    assert run.parent is None
    assert {call.context.trace_id for call in calls} == {run.context.trace_id}
    assert {call.attributes[semconv.TURN_ID] for call in calls} == {run.attributes[semconv.TURN_ID]}
    assert run.start_time <= min(call.start_time for call in calls)
    assert run.end_time >= max(call.end_time for call in calls)
    assert not trace.get_current_span().get_span_context().is_valid
    assert semconv.TOOL_NAME not in run.attributes


def test_inside_of_another_span_there_is_none() -> None:
    """That span holds the trace together already."""
    exported = Exported()
    with exported.provider.get_tracer("app").start_as_current_span("request") as request:
        exported.run()
    assert "invoke_agent" not in exported.spans
    assert {call.parent.span_id for call in exported.spans["execute_tool"]} == {request.get_span_context().span_id}


def test_the_span_of_a_run_that_is_sampled_out_is_never_the_current_one() -> None:
    """Below it the spans of other providers would be dropped, too."""
    for sampler, is_there in ((ALWAYS_OFF, False), (ALWAYS_ON, True)):
        runtime = Runtime(tracer_provider=TracerProvider(sampler=sampler))
        span = RunSpan.start(runtime.providers, Scope(runtime.guard.turn()))
        assert span is not None
        assert (span.context is not None) is is_there


def test_where_instrumentation_is_suppressed_there_is_none() -> None:
    """The context says so."""
    exported = Exported()
    token = otel_context.attach(otel_context.set_value(otel_context._SUPPRESS_INSTRUMENTATION_KEY, True))
    try:
        exported.run()
    finally:
        otel_context.detach(token)
    assert exported.spans == {}
