"""Providers that are replaced, attached again, or raise."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_loopguard as loopguard
from otel_loopguard import semconv
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.instrumentation.process_start import process_start
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime
from otel_loopguard.telemetry.processor import LoopGuardSpanProcessor
from otel_loopguard.testing import Recording, ScriptedAgent, guarded
from tests.telemetry.agents import attributes, stuck

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    """A program with global providers, and the guard off before and after."""
    loopguard.uninstrument()
    recording = Recording()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: recording.tracer_provider)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: recording.meter_provider)
    yield recording
    loopguard.uninstrument()


def calls(number: int) -> None:
    """Make this number of different calls in a new turn."""
    ScriptedAgent({"look": lambda path: f"text of {path}"}, [("look", {"path": str(n)}) for n in range(number)]).run()


def live(program: Recording) -> float:
    """Return the value of the gauge."""
    return sum(point.value for point in program.points(semconv.METRIC_TURNS_LIVE))


def processors(provider: TracerProvider) -> list[Any]:
    """Return our processors on this provider."""
    found: Any = provider._active_span_processor._span_processors
    return [one for one in found if isinstance(one, LoopGuardSpanProcessor)]


@pytest.mark.parametrize("off_between", [True, False], ids=["off and on", "on again"])
def test_calls_are_counted_after_the_guard_was_put_on_again(program: Recording, off_between: bool) -> None:
    """Counts are exported after the guard was switched on again, and the gauge has the turns of the new guard."""
    for number in range(1, 4):
        loopguard.instrument()
        calls(2)
        with loopguard.turn():
            assert live(program) == 1
        assert live(program) == 0
        assert program.counted(semconv.METRIC_TOOL_CALLS) == 2 * number
        if off_between:
            loopguard.uninstrument()


def test_calls_are_counted_where_code_puts_the_guard_on_after_the_entry_point(program: Recording) -> None:
    """Calls are counted after a program under ``opentelemetry-instrument`` calls ``instrument()`` itself."""
    from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor

    LoopGuardInstrumentor().instrument()
    loopguard.instrument(loopguard.Policy(action="observe"))  # type: ignore[arg-type]
    calls(3)
    assert program.counted(semconv.METRIC_TOOL_CALLS) == 3
    assert len(program.outcomes) == 3


def test_no_turns_are_live_while_the_guard_is_off(program: Recording) -> None:
    """The gauge is zero while the guard is off, and keeps no reference to the guard."""
    loopguard.instrument()
    with loopguard.turn():
        loopguard.uninstrument()
        assert live(program) == 0


def test_a_provider_has_one_processor_however_often_the_guard_is_put_on(program: Recording) -> None:
    """After fifty rounds of on and off, no earlier runtime is kept."""
    past = []
    for _ in range(50):
        loopguard.instrument()
        past.append(weakref.ref(active_runtime.instrumented))
        calls(1)
        loopguard.uninstrument()
    gc.collect()
    assert len(processors(program.tracer_provider)) == 1
    assert not any(one() for one in past)
    assert len(program.outcomes) == 50


def test_a_foreign_loop_is_told_once_where_the_provider_was_attached_first(program: Recording) -> None:
    """``attach`` and ``instrument`` make a runtime each, and both use the same processor."""
    own = TracerProvider()
    assert loopguard.attach(own)
    assert loopguard.attach(program.tracer_provider)
    loopguard.instrument()
    tracer = program.tracer_provider.get_tracer("app")
    for _ in range(3):
        with tracer.start_as_current_span("execute_tool look") as span:
            operation = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
            span.set_attributes({**operation, "gen_ai.tool.call.arguments": "{}", "gen_ai.tool.call.result": "text"})
    assert [len(processors(provider)) for provider in (own, program.tracer_provider)] == [1, 1]
    assert program.counted(semconv.METRIC_TOOL_CALLS) == 3


def test_the_processor_does_nothing_while_the_guard_is_off(program: Recording) -> None:
    """While the guard is off, the processor does nothing, and keeps no open spans."""
    loopguard.instrument()
    runtime = active_runtime.instrumented
    assert runtime is not None
    loopguard.uninstrument()
    with program.tracer_provider.get_tracer("app").start_as_current_span("a"):
        assert len(runtime.open_spans) == 0


def test_a_provider_without_our_processor_has_the_same_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without our processor, as in a foreign SDK, the span has the same attributes and events."""
    with guarded() as recording:
        assert recording.runtime is not None
        monkeypatch.setattr(process_start.attachments, "add_processor", lambda *_: False)
        assert stuck() == [2]
        assert [len(span.events) for span in recording.spans] == [0, 1, 1]
        assert attributes(recording.spans[2])[semconv.OUTCOME] == "blocked"


def test_a_provider_that_is_replaced_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans go to the current global provider, which some packages replace."""
    exporters = [InMemorySpanExporter(), InMemorySpanExporter()]
    runtime = Runtime(Policy())
    before = active_runtime.instrumented
    active_runtime.put(runtime)
    try:
        for exporter in exporters:
            provider = TracerProvider()
            provider.add_span_processor(SimpleSpanProcessor(exporter))
            monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
            assert stuck() == [2]
    finally:
        active_runtime.put(before)
    assert [[len(s.events) for s in exporter.get_finished_spans() if s.events] for exporter in exporters] == [
        [1, 1],
        [1, 1],
    ]


class Broken:
    """A provider whose method raises; all others are those of the API."""

    def __init__(self, inner: Any, broken: str) -> None:
        self._inner, self._broken = inner, broken

    def __getattr__(self, name: str) -> Any:
        """Return the method of the provider behind it, unless that is the broken one."""
        if name == self._broken:
            raise OSError("no connection")
        return getattr(self._inner, name)


class NotHashable(Broken):
    """A provider that no dictionary and no weak set takes."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # as a class with __eq__ alone has it


@pytest.mark.parametrize("kind", [Broken, NotHashable])
@pytest.mark.parametrize(
    ("role", "provider", "broken"),
    [
        ("tracer_provider", TracerProvider(), "get_tracer"),
        ("tracer_provider", TracerProvider(), "add_span_processor"),
        ("meter_provider", metrics.NoOpMeterProvider(), "get_meter"),
        ("logger_provider", NoOpLoggerProvider(), "get_logger"),
        ("tracer_provider", TracerProvider(), ""),
        ("meter_provider", metrics.NoOpMeterProvider(), ""),
    ],
)
def test_a_provider_that_raises_takes_no_protection_away(
    program: Recording, kind: type[Broken], role: str, provider: Any, broken: str
) -> None:
    """The loop is stopped; parts of the other providers go on working."""
    loopguard.instrument(**{role: kind(provider, broken)})
    assert stuck() == [2]
    if role != "tracer_provider":
        assert program.spans
    if role != "meter_provider":
        assert program.counted(semconv.METRIC_TRIPS) > 0


def test_a_global_provider_that_cannot_be_loaded_takes_no_protection_away(
    program: Recording, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The API raises where the environment names a provider that is not installed. One line of the log says so."""

    def no_provider() -> Any:
        raise StopIteration("no such entry point")

    agent = ScriptedAgent({"read": lambda path: f"text of {path}"}, [("read", {"path": "a"})] * 3)
    monkeypatch.setattr(trace, "get_tracer_provider", no_provider)
    loopguard.instrument()
    assert agent.run().refused == [2]
    assert ["StopIteration" in line for line in caplog.messages].count(True) == 1
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: program.tracer_provider)
    stuck()
    assert program.spans
