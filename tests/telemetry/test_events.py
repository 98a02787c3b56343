"""Trip events on spans and in logs, and the warnings in the log of the program."""

from __future__ import annotations

import logging

import pytest

from otel_loopguard import semconv
from otel_loopguard.telemetry import events
from otel_loopguard.telemetry.settings import Settings
from otel_loopguard.testing import guarded
from tests.telemetry.agents import stuck


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
