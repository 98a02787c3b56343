"""The spans of a process whose guard is on and not made yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider

from otel_loopguard import semconv
from otel_loopguard.telemetry.idle_watcher import WaitingWatcher
from otel_loopguard.telemetry.processor import LoopGuardSpanProcessor

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


def test_only_a_tool_span_is_passed_on_and_the_spans_around_it_are_known() -> None:
    """Requests, agents and models do not end the wait; the first tool call finds its agent among the open spans."""
    judged: list[tuple[str, list[str]]] = []

    def judge(span: ReadableSpan) -> None:
        judged.append((span.name, [one.name for one in watcher.open_spans.ancestors(span)]))

    watcher = WaitingWatcher(judge)
    current: Any = SimpleNamespace(watcher=watcher)
    provider = TracerProvider()
    provider.add_span_processor(LoopGuardSpanProcessor(current))
    tracer = provider.get_tracer("other")
    with tracer.start_as_current_span("request"), tracer.start_as_current_span("agent"):
        tracer.start_span("chat", attributes={"gen_ai.request.model": "m"}).end()
        assert judged == []
        tool = {semconv.OPERATION_NAME: semconv.OPERATION_EXECUTE_TOOL, semconv.TOOL_NAME: "look"}
        tracer.start_span("execute_tool look", attributes=tool).end()
    assert judged[0] == ("execute_tool look", ["agent", "request"])
    assert len(watcher.open_spans) == 0
