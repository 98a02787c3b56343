"""Trips as log records: each stands alone, and goes to the provider that is current."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry import _logs as otel_logs
from opentelemetry._logs import NoOpLoggerProvider, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolContract, ToolLoopError, semconv
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime
from otel_loopguard.telemetry.settings import Settings
from otel_loopguard.testing import Recording, guarded
from otel_loopguard.testing.recording import InMemoryLogs
from tests.telemetry.agents import attributes, look, stuck
from tests.telemetry.test_watcher import Agent
from tests.telemetry.watching import watching


def looping(calls: int = 3, **policy: Any) -> Recording:
    """A turn of so many equal calls."""
    with guarded(Policy(**policy)) as recording, loopguard.turn("thread-7", agent_name="helper"):
        for number in range(calls):
            with suppress(ToolLoopError):
                loopguard.call("look", {"path": "SECRET"}, lambda path: "a long result " * 20, call_id=f"call-{number}")
    return recording


def test_a_record_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has what its span has to find the call, and no value of an argument."""
    monkeypatch.setattr("otel_loopguard.telemetry.log_records.time_ns", lambda: 1_800_000_000_000_000_000)
    recording = looping()
    record, span = recording.logs[-1], recording.spans[-1]
    assert record.event_name == "loopguard.tool_loop_detected"
    assert dict(record.attributes) == {
        "loopguard.turn.id": attributes(span)[semconv.TURN_ID],
        "loopguard.turn.source": "explicit",
        "loopguard.turn.call_index": 2,
        "loopguard.turn.first": "action",
        "gen_ai.conversation.id": "thread-7",
        "gen_ai.agent.name": "helper",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "call-2",
        "loopguard.arguments_hash": attributes(span)[semconv.ARGUMENTS_HASH],
        "loopguard.tool.kind": "read",
        "loopguard.mode": "generic_repeat",
        "loopguard.verdict": "block",
        "loopguard.action": "block",
        "loopguard.count": 3,
        "loopguard.limit": 3,
        "loopguard.limit_reason": "repeat",
        "loopguard.period": 1,
        "loopguard.first_seen_index": 0,
    }
    assert record.body == "look: generic_repeat, count 3, limit 3, action block"
    assert record.timestamp == record.observed_timestamp == 1_800_000_000_000_000_000
    assert (record.trace_id, record.span_id) == (span.context.trace_id, span.context.span_id)
    assert "SECRET" not in str(recording.logs)


def test_each_trip_is_one_record_and_one_event_of_the_span() -> None:
    """The event of the span has a name of its own and the same facts: both count the same trips."""
    recording = looping(6)
    events = [event for span in recording.spans for event in span.events]
    assert {event.name for event in events} == {"tool_loop_detected"}
    assert len(events) == len(recording.logs) == recording.counted(semconv.METRIC_TRIPS) == 5
    for event, record in zip(events, recording.logs, strict=True):
        assert dict(event.attributes or {}).items() <= dict(record.attributes).items()


@pytest.mark.parametrize(
    ("policy", "calls", "action", "severity"),
    [
        ({"action": "observe"}, 3, "observe", SeverityNumber.INFO),
        ({}, 2, "nudge", SeverityNumber.INFO),
        ({"tools": {"look": ToolContract(reuse=True)}}, 3, "reuse", SeverityNumber.INFO),
        ({}, 3, "block", SeverityNumber.WARN),
        ({}, 9, "conclude", SeverityNumber.WARN),
        ({"abort_after": 1}, 4, "abort", SeverityNumber.ERROR),
    ],
)
def test_the_severity_follows_the_action(
    policy: dict[str, Any], calls: int, action: str, severity: SeverityNumber
) -> None:
    """INFO leaves the work to the agent, WARN is a refusal, ERROR the end of the run."""
    record = looping(calls, **policy).logs[-1]
    assert record.attributes[semconv.ACTION] == action
    assert (record.severity_number, record.severity_text) == (severity, severity.name)


def test_a_record_names_its_trace_where_no_span_is_sampled() -> None:
    """The ids are those that every other part of the trace has."""
    with guarded(sampler=ALWAYS_OFF) as recording:
        tracer = recording.tracer_provider.get_tracer("app")
        with tracer.start_as_current_span("request") as request:
            stuck()
        assert recording.spans == []
        trace_ids = {record.trace_id for record in recording.logs}
    assert len(recording.logs) == 2
    assert trace_ids == {request.get_span_context().trace_id}


@pytest.mark.parametrize(("shown", "expected"), [("hash", "blake2b-64:"), ("off", "None")])
def test_the_conversation_is_shown_as_the_settings_say(shown: str, expected: str) -> None:
    """A record hides the id where the span hides it."""
    with guarded(settings=Settings(conversation_id=shown)) as recording, loopguard.turn("thread-7"):
        for _ in range(3):
            loopguard.call("look", {"path": "a"}, look)
    record, span = recording.logs[-1], recording.spans[-1]
    assert record.attributes.get(semconv.CONVERSATION_ID) == attributes(span).get(semconv.CONVERSATION_ID)
    assert str(record.attributes.get(semconv.CONVERSATION_ID)).startswith(expected)


def test_a_call_of_another_instrumentation_has_a_record() -> None:
    """Turn, conversation and agent come from the spans around the call, as they are seen at its end."""
    with watching(settings=Settings(conversation_id="hash")) as recording:
        agent = Agent(recording, "opentelemetry")
        message = {semconv.OPERATION_NAME: "invoke_agent", semconv.CONVERSATION_ID: "t", semconv.AGENT_NAME: "helper"}
        with agent.message(**message):
            for _ in range(3):
                agent.look("a.txt", **{semconv.TOOL_CALL_ID: "call-1"})
        hashed = recording.runtime.hash("t")  # type: ignore[union-attr]
        record = recording.logs[-1]
    assert record.attributes[semconv.ACTION] == "observe"
    assert record.attributes[semconv.TURN_ID].startswith("seen-")
    assert record.attributes[semconv.TURN_SOURCE] == "agent_span"
    assert record.attributes[semconv.CONVERSATION_ID] == hashed
    assert record.attributes[semconv.AGENT_NAME] == "helper"
    assert record.attributes[semconv.TOOL_CALL_ID] == "call-1"
    assert record.attributes[semconv.CALL_INDEX] == 2
    assert record.attributes[semconv.ARGUMENTS_HASH].startswith("blake2b-64:")


# --- the provider ------------------------------------------------------------------------------------------------


def new_provider() -> tuple[LoggerProvider, Any]:
    """A provider that keeps its records."""
    provider, kept = LoggerProvider(), InMemoryLogs()  # type: ignore[no-untyped-call]  # no type hints
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    return provider, kept


def global_run(recording: Recording, **settings: Any) -> Runtime:
    """A runtime that takes the global logger provider."""
    return Runtime(
        Policy(),
        settings=Settings(**settings),
        tracer_provider=recording.tracer_provider,
        meter_provider=recording.meter_provider,
    )


def test_a_provider_that_is_set_late_or_replaced_gets_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may set up its logs after the first trip. Until then trips are on spans alone."""
    recording, before = Recording(), active_runtime.instrumented
    runtime = global_run(recording)
    written = []
    active_runtime.put(runtime)
    try:
        stuck()
        for _ in range(2):
            provider, kept = new_provider()
            monkeypatch.setattr(otel_logs._internal, "_LOGGER_PROVIDER", provider)
            stuck()
            written.append(len(kept.get_finished_logs()))
    finally:
        active_runtime.put(before)
    assert written == [2, 2]
    assert sum(len(span.events) for span in recording.spans) == 6


@pytest.mark.parametrize("provider", [None, NoOpLoggerProvider()])
def test_where_no_provider_is_set_a_trip_is_on_the_span(
    provider: NoOpLoggerProvider | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also with ``EVENTS=log``: a trip that is written nowhere would be lost."""
    monkeypatch.setattr(otel_logs._internal, "_LOGGER_PROVIDER", provider)
    recording, before = Recording(), active_runtime.instrumented
    active_runtime.put(global_run(recording, span_events=False, log_events=True))
    try:
        stuck()
    finally:
        active_runtime.put(before)
    assert sum(len(span.events) for span in recording.spans) == 2
    assert "log events" not in caplog.text


class Failing:
    """A provider, or a logger, whose methods raise."""

    def __init__(self, inner: Any, broken: str) -> None:
        self._inner, self._broken = inner, broken

    def __getattr__(self, name: str) -> Any:
        """Return the method of the object behind it, unless that is the broken one."""
        if name == self._broken:
            raise OSError("no connection")
        found = getattr(self._inner, name)
        return found if name != "get_logger" else lambda *scope, **more: Failing(found(*scope, **more), self._broken)


@pytest.mark.parametrize("broken", ["get_logger", "emit"])
def test_a_provider_that_raises_takes_nothing_away(broken: str) -> None:
    """The loop is stopped, counted and on the span. The fault is counted as ours."""
    with guarded() as recording:
        runtime = Runtime(
            Policy(),
            tracer_provider=recording.tracer_provider,
            meter_provider=recording.meter_provider,
            logger_provider=Failing(new_provider()[0], broken),  # type: ignore[arg-type]  # a foreign object
        )
        active_runtime.put(runtime)
        assert stuck() == [2]
        assert recording.counted(semconv.METRIC_TRIPS) == 2
        assert sum(len(span.events) for span in recording.spans) == 2
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == (1 if broken == "get_logger" else 2)


@pytest.mark.filterwarnings("ignore:.LoggingHandler:DeprecationWarning")
def test_the_lines_of_the_programs_log_are_no_records_of_trips() -> None:
    """A handler that exports the program's log takes our warnings, too. They have no event name: trips count once."""
    with guarded() as recording:
        handler = LoggingHandler(logger_provider=recording.logger_provider)
        ours = logging.getLogger("otel_loopguard")
        ours.addHandler(handler)
        try:
            stuck()
        finally:
            ours.removeHandler(handler)
        trips = [record for record in recording.logs if record.event_name == semconv.LOG_TRIP]
        lines = [record for record in recording.logs if record not in trips]
    assert len(trips) == 2
    assert [record.event_name for record in lines] == [None]
    assert str(lines[0].body).startswith("Refused look")
