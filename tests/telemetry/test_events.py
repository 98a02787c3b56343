"""Trip events on spans and in logs, and the warnings in the log of the program."""

from __future__ import annotations

import logging
from contextlib import suppress

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.telemetry import events
from otel_loopguard.telemetry.settings import Settings
from otel_loopguard.testing import guarded
from tests.telemetry.agents import look, stuck


@pytest.mark.parametrize(("span_events", "log_events"), [(True, False), (False, True), (True, True)])
def test_events_go_where_the_settings_say(span_events: bool, log_events: bool) -> None:
    """A trip is an event on the span, a log record with equal attributes and the span's ids, or both."""
    if log_events and not events.LOG_EVENTS:
        pytest.skip("this OpenTelemetry has no log events")
    with guarded(settings=Settings(span_events=span_events, log_events=log_events)) as recording:
        stuck()
        on_spans = [event for span in recording.spans for event in span.events]
        assert [bool(on_spans), bool(recording.logs)] == [span_events, log_events]
        assert recording.counted(semconv.METRIC_TRIPS) == 2
        for record in recording.logs:
            assert record.event_name == "tool_loop_detected"
            assert record.attributes[semconv.MODE] == "generic_repeat"
            assert record.span_id in {span.context.span_id for span in recording.spans}


def test_each_refusal_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Tool, abbreviated fingerprint, attempt and mode; no argument."""
    with caplog.at_level(logging.INFO, "otel_loopguard"), guarded():
        stuck()
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "Refused look (arguments blake2b-64:" in warning.getMessage()
    assert "attempt 3" in warning.getMessage()
    assert "generic_repeat" in warning.getMessage()
    assert caplog.text.count("OTEL_PYTHON_LOOPGUARD_ACTION=observe") == 2  # at start, and in the first refusal


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_turn_has_one_line_for_each_mode_and_a_sum(caplog: pytest.LogCaptureFixture) -> None:
    """Refusals are logged by turn: the first of a mode, and how many there were when the turn ends."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded() as recording:
        with loopguard.turn():
            for _ in range(7):
                loopguard.call("look", {"path": "a"}, look)
        turn_id = (recording.spans[0].attributes or {})[semconv.TURN_ID]
    first, last = messages(caplog)
    assert f"in turn {turn_id}, attempt 3" in first
    assert last == f"Turn {turn_id} ended with 5 calls refused (generic_repeat 5)."


def test_a_conclusion_has_a_line_and_counts_as_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    """At an executor the call is refused as well, so the sum has it."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded(), loopguard.turn():
        for _ in range(10):
            loopguard.call("look", {"path": "a"}, look)
    refused, concluded, summed = messages(caplog)
    assert refused.startswith("Refused look")
    assert concluded.startswith("The next model request is to have no tools; refused look")
    assert "8 calls refused (generic_repeat 8)" in summed


def test_an_error_that_the_program_swallows_is_no_end_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """The log says that the error was raised, and once that the program goes on."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded(Policy(abort_after=1)), loopguard.turn():
        for _ in range(12):
            with suppress(ToolLoopError):
                loopguard.call("look", {"path": "a"}, look)
    refused, raised, swallowed = messages(caplog)
    assert refused.startswith("Refused look")
    assert raised.startswith("Raised ToolLoopError at look")
    assert "goes on" in swallowed


def call_for_ever(name: str) -> None:
    with loopguard.turn():
        for _ in range(20):
            loopguard.call(name, {"path": "a"}, look if name == "look" else None, known_tools=["look"])


def test_the_error_tells_how_deep_the_loop_was() -> None:
    """It has the attempts and the refusals, and says of a name that does not exist that there is no such tool."""
    with guarded():
        with pytest.raises(ToolLoopError, match=r"called look .* \(generic_repeat: 13 attempts, 10 refused\)"):
            call_for_ever("look")
        with pytest.raises(ToolLoopError, match="called tools that do not exist again"):
            call_for_ever("nope")
