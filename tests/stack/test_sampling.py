"""Tail sampling keeps every trace with a trip, whenever it comes, those of costly turns, and a share of the others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from opentelemetry.trace import set_span_in_context

from otel_loopguard import semconv

from .harness.process import wait_until
from .harness.tempo import Tempo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.trace import Span

    from .harness.application import Application
    from .harness.collector import Collector

import pytest

# In life 10 minutes and 5 seconds; the order of the two, and of what the tests do, is the same.
WAITS = {"LOOPGUARD_DECISION_WAIT": "30s", "LOOPGUARD_DECISION_WAIT_AFTER_ROOT": "3s"}


@pytest.fixture
def tempo() -> Iterator[Tempo]:
    """A back end."""
    tempo = Tempo()
    tempo.start()
    yield tempo
    tempo.stop()


def trace_id(span: Span) -> str:
    return f"{span.get_span_context().trace_id:032x}"


def tool_call(agent: Application, root: Span, *, tripped: bool = False) -> None:
    """One exported call below a root that may still be open, or long have ended."""
    span = agent.tracer.start_span("execute_tool read", context=set_span_in_context(root))
    if tripped:
        agent.trip(span, "cycle")
    span.end()
    agent.flush()


def test_traces_are_kept_whole_whenever_the_trip_comes(
    make_collector: Callable[..., Collector], make_application: Callable[..., Application], tempo: Tempo
) -> None:
    """At once; seconds after the trace began; after its root has ended: all spans of the trace arrive."""
    collector = make_collector(tempo=True, LOOPGUARD_SAMPLING_PERCENTAGE="0", **WAITS, **tempo.settings)
    agent = make_application(collector)
    early, late, after_root, never = (agent.tracer.start_span("invoke_agent") for _ in range(4))
    for root in (early, late, after_root, never):
        tool_call(agent, root, tripped=root is early)
    after_root.end()
    agent.flush()
    time.sleep(1)
    tool_call(agent, after_root, tripped=True)
    time.sleep(4)
    tool_call(agent, late, tripped=True)
    for root in (early, late, never):
        tool_call(agent, root)
        root.end()
    agent.flush()

    expected = {trace_id(early): 3, trace_id(late): 4, trace_id(after_root): 3}
    wait_until(f"{expected} in the back end", lambda: dict(tempo.spans()) == expected)
    time.sleep(4)
    assert dict(tempo.spans()) == expected


def test_the_traces_of_turns_with_many_requests_are_kept(
    make_collector: Callable[..., Collector], make_application: Callable[..., Application], tempo: Tempo
) -> None:
    """From a number on, without any trip; their spans arrive before the span of the turn does."""
    settings = {"LOOPGUARD_SAMPLING_PERCENTAGE": "0", "LOOPGUARD_COSTLY_TURN_REQUESTS": "40"}
    collector = make_collector(tempo=True, **settings, **WAITS, **tempo.settings)
    agent = make_application(collector)
    cheap, costly = (
        agent.tracer.start_span("invoke_agent", attributes={semconv.TURN_REQUESTS: each}) for each in (39, 40)
    )
    for root in (cheap, costly):
        tool_call(agent, root)
        root.end()
    agent.flush()

    expected = {trace_id(costly): 2}
    wait_until(f"{expected} in the back end", lambda: dict(tempo.spans()) == expected)
    time.sleep(4)
    assert dict(tempo.spans()) == expected


def test_a_trip_long_after_its_trace_was_dropped_still_arrives(
    make_collector: Callable[..., Collector], make_application: Callable[..., Application], tempo: Tempo
) -> None:
    """The trace's earlier spans are gone by then; the call with the trip is not."""
    waits = {"LOOPGUARD_DECISION_WAIT_AFTER_ROOT": "1s", "LOOPGUARD_SAMPLING_PERCENTAGE": "0"}
    collector = make_collector(tempo=True, **waits, **tempo.settings)
    agent = make_application(collector)
    root = agent.tracer.start_span("invoke_agent")
    root.end()
    agent.flush()
    time.sleep(4)
    tool_call(agent, root, tripped=True)

    wait_until("the late trip", lambda: tempo.spans() == {trace_id(root): 1})


def test_a_trip_told_by_log_events_is_kept(
    make_collector: Callable[..., Collector], make_application: Callable[..., Application], tempo: Tempo
) -> None:
    """A trace without a span event, as with EVENTS=log, is kept for the span's attribute."""
    collector = make_collector(tempo=True, LOOPGUARD_SAMPLING_PERCENTAGE="0", **tempo.settings)
    agent = make_application(collector)
    with agent.foreign.start_as_current_span("invoke_agent") as root, agent.tracer.start_as_current_span("x") as span:
        span.set_attribute(semconv.MODE, "cycle")
    agent.flush()

    wait_until("the whole trace", lambda: tempo.spans() == {trace_id(root): 2})


def test_a_share_of_the_others_is_kept(
    make_collector: Callable[..., Collector], make_application: Callable[..., Application], tempo: Tempo
) -> None:
    """The operator's percentage of the traces is kept, and every looping trace as well."""
    collector = make_collector(tempo=True, LOOPGUARD_SAMPLING_PERCENTAGE="10", **tempo.settings)
    agent = make_application(collector, span_queue=20_000)
    for number in range(600):
        agent.turn(*(["cycle"] if number % 6 == 0 else []), calls=1)
    agent.flush()

    def kept() -> set[str]:
        return set(tempo.spans())

    wait_until("all looping traces", lambda: agent.looping_traces <= kept())
    wait_until("some of the others", lambda: len(kept() & agent.other_traces) > 15)
    time.sleep(1)
    assert len(kept() & agent.other_traces) < 100
