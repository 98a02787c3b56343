"""The span processor: a call is judged once, with any other processors and samplers."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased

from otel_loopguard import semconv
from otel_loopguard.instrumentation.process_start import process_start
from otel_loopguard.telemetry.processor import LoopGuardSpanProcessor
from otel_loopguard.testing import guarded
from tests.telemetry.agents import attributes, stuck


def test_the_event_is_there_when_a_later_processor_sees_the_span_start() -> None:
    """The call is judged in ``on_start``, so a later processor can read the event there."""
    seen: list[tuple[Any, int]] = []

    class Later(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            if span.name.startswith(semconv.OPERATION_EXECUTE_TOOL):
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
    """With our processor added twice to a provider, each call is judged and counted once."""
    with guarded() as recording:
        runtime = recording.runtime
        assert runtime is not None
        assert runtime.providers.attach(recording.tracer_provider)
        assert runtime.providers.attach(recording.tracer_provider)
        second = LoopGuardSpanProcessor(process_start)
        recording.tracer_provider.add_span_processor(second)
        assert stuck() == [2]
        assert [len(span.events) for span in recording.spans] == [0, 1, 1]
        assert recording.counted(semconv.METRIC_TRIPS) == 2
