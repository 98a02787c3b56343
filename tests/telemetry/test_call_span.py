"""One call, one span, one judgement: whatever providers, processors and samplers there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased
from opentelemetry.trace import StatusCode

import otel_loopguard as loopguard
from otel_loopguard import semconv
from otel_loopguard.core.model import Action, ToolCall
from otel_loopguard.core.policy.policy import Policy, Rule, ToolContract
from otel_loopguard.instrumentation.functions.decorator import FUNCTION
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime
from otel_loopguard.instrumentation.targets import Reading
from otel_loopguard.instrumentation.tool_call import GuardedCall, drive
from otel_loopguard.telemetry.call_span import NativeSpan
from otel_loopguard.telemetry.processor import LoopGuardSpanProcessor
from otel_loopguard.telemetry.series import combinations
from otel_loopguard.testing import ScriptedAgent, guarded

if TYPE_CHECKING:
    from collections.abc import Mapping


@loopguard.tool
def look(path: str) -> str:
    """Look at something."""
    with trace.get_tracer("app").start_as_current_span("inside the tool"):
        return f"there is {path}"


def stuck() -> list[int]:
    """Three equal calls; the positions of those that were refused."""
    return ScriptedAgent({"look": look}, [("look", {"path": "a"})] * 3).run().refused


def attributes(span: Any) -> Mapping[str, Any]:
    """The attributes of a span."""
    return span.attributes or {}


def test_what_a_span_says() -> None:
    """Names and hashes, as the conventions and the documentation have them; never a value."""
    with guarded() as recording:
        with loopguard.turn("conversation", agent_name="helper"):
            loopguard.call("look", {"path": "a"}, look, call_id="call-1", known_tools=["look"])
            loopguard.call("look", {"path": "a"}, look, call_id="call-2", known_tools=["look"])
        first, second = map(attributes, recording.spans)
        assert recording.spans[0].name == "execute_tool look"
        assert recording.spans[0].kind is trace.SpanKind.INTERNAL
        expected = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "look",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": "call-1",
            "gen_ai.agent.name": "helper",
            "gen_ai.conversation.id": "conversation",
            "loopguard.tool.kind": "read",
            "loopguard.tool.registered": True,
            "loopguard.turn.source": "explicit",
            "loopguard.turn.call_index": first[semconv.CALL_INDEX],
            "loopguard.result_sameness": "first",
            "loopguard.outcome": "executed",
        }
        hashes = {semconv.TURN_ID, semconv.ARGUMENTS_HASH, semconv.RESULT_HASH}
        assert {name: value for name, value in first.items() if name not in hashes} == expected
        assert hashes <= set(first)
        assert first[semconv.ARGUMENTS_HASH] == second[semconv.ARGUMENTS_HASH]
        assert first[semconv.RESULT_HASH] == second[semconv.RESULT_HASH]
        assert second[semconv.RESULT_SAMENESS] == "same"
        assert second[semconv.CALL_INDEX] == first[semconv.CALL_INDEX] + 1
        assert second[semconv.OUTCOME] == "nudged"
        assert (second[semconv.MODE], second[semconv.VERDICT], second[semconv.ACTION]) == (
            "generic_repeat",
            "nudge",
            "nudge",
        )


def test_a_failure_is_told_also_where_it_was_nudged() -> None:
    """``error.type`` and the status are the tool's own; a nudge beside its error changes neither."""

    @loopguard.tool(name="look")
    def broken(path: str) -> str:
        return f"Error: cannot read {path}"

    with guarded() as recording:
        with loopguard.turn():
            for _ in range(2):
                broken("a")
        second = recording.spans[1]
        attributes = dict(second.attributes or {})
        assert attributes[semconv.OUTCOME] == "nudged"
        assert attributes[semconv.ERROR_TYPE] == "tool_error"
        assert second.status.status_code is StatusCode.ERROR
        assert second.status.description is None


def test_the_event_says_why() -> None:
    """Mode, verdict, action, kind and tool as words, because they become labels; counts as numbers."""
    with guarded() as recording:
        stuck()
        (event,) = recording.spans[2].events
        assert event.name == "tool_loop_detected"
        assert dict(event.attributes or {}) == {
            "loopguard.mode": "generic_repeat",
            "loopguard.verdict": "block",
            "loopguard.action": "block",
            "loopguard.tool.kind": "read",
            "gen_ai.tool.name": "look",
            "loopguard.count": 3,
            "loopguard.limit": 3,
            "loopguard.period": 1,
            "loopguard.first_seen_index": event.attributes["loopguard.first_seen_index"],  # type: ignore[index]
        }


def test_the_event_is_there_when_a_later_processor_sees_the_span_start() -> None:
    """The call is judged in ``on_start``, before its tool runs: others can read the verdict."""
    seen: list[tuple[Any, int]] = []

    class Later(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            seen.append((attributes(span).get(semconv.ACTION), len(span.events)))

    with guarded() as recording:
        assert recording.runtime is not None
        recording.runtime.providers.outlets()
        recording.tracer_provider.add_span_processor(Later())
        stuck()
        assert seen == [(None, 0), (None, 0), ("block", 1)]


@pytest.mark.parametrize("sampler", [ALWAYS_OFF, TraceIdRatioBased(0.5)], ids=["off", "half"])
def test_a_sampler_changes_no_verdict(sampler: Any) -> None:
    """Each call is judged and counted once, recorded or not."""
    with guarded(sampler=sampler) as recording:
        for _ in range(20):
            assert stuck() == [2]
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 60
        assert recording.counted(semconv.METRIC_TRIPS, loopguard__action="block") == 20
        assert len(recording.spans) < 60


def test_two_processors_judge_a_call_once() -> None:
    """A provider that was given our processor twice tells everything once."""
    with guarded() as recording:
        runtime = recording.runtime
        assert runtime is not None
        assert runtime.providers.attach(recording.tracer_provider)
        assert runtime.providers.attach(recording.tracer_provider)
        second = LoopGuardSpanProcessor(active_runtime.attached)
        recording.tracer_provider.add_span_processor(second)
        assert stuck() == [2]
        assert [len(span.events) for span in recording.spans] == [0, 1, 1]
        assert recording.counted(semconv.METRIC_TRIPS) == 2


def test_attach_adds_one_processor_to_each_provider() -> None:
    """Asked for twice it is there once; what cannot take a processor is told so."""
    added: list[Any] = []

    class Provider(TracerProvider):
        def add_span_processor(self, span_processor: Any) -> None:
            added.append(span_processor)

    with guarded():
        one, two = Provider(), Provider()
        assert [loopguard.attach(provider) for provider in (one, one, two, one)] == [True] * 4
        assert len(added) == 2
        assert loopguard.attach(trace.NoOpTracerProvider()) is False


def test_a_provider_without_our_processor_has_the_same_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the processor is missing, as in a foreign SDK, the dispatcher writes the same on the span."""
    with guarded() as recording:
        assert recording.runtime is not None
        monkeypatch.setattr(active_runtime.attached, "add_processor", lambda *_: False)
        assert stuck() == [2]
        assert [len(span.events) for span in recording.spans] == [0, 1, 1]
        assert attributes(recording.spans[2])[semconv.OUTCOME] == "blocked"


def test_a_provider_that_is_replaced_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some packages write over the global provider; spans go where the program's spans go."""
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


def test_where_instrumentation_is_suppressed_there_is_no_span() -> None:
    """The loop is stopped and counted all the same."""
    with guarded() as recording:
        token = otel_context.attach(otel_context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        try:
            assert stuck() == [2]
        finally:
            otel_context.detach(token)
        assert recording.spans == []
        assert recording.counted(semconv.METRIC_TRIPS, loopguard__action="block") == 1


def test_a_span_made_by_the_tool_is_a_child_of_the_call() -> None:
    """What a tool traces lies below its call, and is not taken for a call itself."""
    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("app")
        inner: list[Any] = []

        @loopguard.tool
        def traced(path: str) -> str:
            """Trace something."""
            with tracer.start_as_current_span("inside") as span:
                inner.append(span)
            return path

        with loopguard.turn():
            traced("a")
        (span,) = recording.spans
        assert inner[0].parent.span_id == span.context.span_id
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 1


@pytest.mark.parametrize("where", [NativeSpan.INNER, NativeSpan.OUTER, NativeSpan.NONE])
def test_one_call_has_one_execute_tool_span(where: NativeSpan) -> None:
    """Where the framework makes that span itself, inside of ours or around it, there is not a second one."""
    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("framework")
        names: list[str] = []
        runtime = recording.runtime
        assert runtime is not None

        def framework(run: Any) -> Any:
            with tracer.start_as_current_span("execute_tool look") as span:
                result = run()
                names.append(getattr(span, "name", ""))
                theirs.append(attributes(span))
                return result

        theirs: list[Mapping[str, Any]] = []

        def run() -> Any:
            reading = Reading(ToolCall("look", {"path": "a"}, None, ("look",)), native_span=where)
            step = GuardedCall(runtime, FUNCTION, reading, runtime.sources.find())
            return drive(step, (lambda: framework(lambda: "text")) if where is NativeSpan.INNER else lambda: "text")

        with loopguard.turn():
            for _ in range(3):
                if where is NativeSpan.OUTER:
                    framework(run)
                else:
                    run()
        ours = [(span.name, attributes(span).get(semconv.OPERATION_NAME)) for span in recording.spans]
        if where is NativeSpan.OUTER:
            assert ours == []
            assert [one.get(semconv.OUTCOME) for one in theirs] == ["executed", "nudged", "blocked"]
            assert theirs[2][semconv.ACTION] == "block"
        elif where is NativeSpan.INNER:
            assert ours == [("loopguard look", None), ("loopguard look", None), ("execute_tool look", "execute_tool")]
            assert len(names) == 2
        else:
            assert ours == [("execute_tool look", "execute_tool")] * 3


def test_exemplars_link_counts_to_their_traces() -> None:
    """A trip's count names the span of the very call."""
    with guarded() as recording:
        stuck()
        spans = {span.context.span_id for span in recording.spans if span.events}
        exemplars = {
            exemplar.span_id for point in recording.points(semconv.METRIC_TRIPS) for exemplar in point.exemplars
        }
        assert exemplars == spans


def test_every_possible_trip_is_counted_zero_at_start() -> None:
    """``increase()`` sees a first trip only where the series was there before."""
    with guarded() as recording:
        points = {
            tuple(sorted(point.attributes.items())): point.value for point in recording.points(semconv.METRIC_TRIPS)
        }
        assert set(points.values()) == {0}
        stuck()
        after = {tuple(sorted(point.attributes.items())) for point in recording.points(semconv.METRIC_TRIPS)}
        assert after == set(points)


POLICIES = {
    **{action: {"action": action} for action in ("off", "observe", "nudge", "reuse", "block", "abort")},
    "a mode's own": {"modes": {"generic_repeat": Rule(action=Action.NUDGE)}},
    "a tool's own": {"tools": {"lo*": ToolContract(action=Action.OBSERVE)}},
    "a tool's own for a mode": {"tools": {"look": ToolContract(modes={"generic_repeat": Rule(action=Action.NUDGE)})}},
    "asked": {"on_trip": lambda trip: Action.BLOCK if trip.action is Action.NUDGE else None},
}


@pytest.mark.parametrize("name", POLICIES)
def test_no_trip_falls_outside_of_the_series_that_were_named(name: str) -> None:
    """Whatever the ceiling, what is counted was counted zero before."""
    policy = Policy(abort_after=1, **POLICIES[name])  # type: ignore[arg-type]
    named = set(combinations(policy))
    with guarded(policy) as recording:
        for tools in ({"look": look}, {}):
            ScriptedAgent(tools, [("look", {"path": "a"})] * 9).run()
        look("outside of a turn")
        assert {(trip.mode, trip.verdict, trip.action) for trip in recording.trips} <= named
        assert bool(named) == bool(recording.trips) == (name != "off")


def test_a_recovery_is_counted() -> None:
    """After a trip the agent brought something new again: the remedy helped."""
    with guarded() as recording:
        paths = ["a", "a", "a", "b"]
        ScriptedAgent({"look": look}, [("look", {"path": path}) for path in paths]).run()
        assert recording.counted(semconv.METRIC_RECOVERIES, loopguard__action="block") == 1
