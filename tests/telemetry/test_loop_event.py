"""Trip events on spans and in logs, and the warnings in the log of the program."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.telemetry.log_records import LOG_EVENTS
from otel_loopguard.telemetry.settings import Settings
from otel_loopguard.testing import guarded
from tests.store.memory import FlakyStore
from tests.telemetry.agents import look, stuck

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("settings", "on_spans", "in_logs"),
    [
        (Settings(), True, True),
        (Settings(log_events=False), True, False),
        (Settings(span_events=False, log_events=True), False, True),
        (Settings(log_events=True), True, True),
    ],
)
def test_events_go_where_the_settings_say(
    settings: Settings, on_spans: bool, in_logs: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A trip is an event on the span, a log record, or both.

    The oldest OpenTelemetry has no log events: then it is on the span, and whoever asked for records is told.
    """
    with guarded(settings=settings) as recording:
        stuck()
        written = [bool([event for span in recording.spans for event in span.events]), bool(recording.logs)]
    assert written == ([on_spans, in_logs] if LOG_EVENTS else [True, False])
    asked = bool(settings.log_events) and not LOG_EVENTS
    assert caplog.text.count("has no log events: trips are written on spans only") == asked
    assert recording.counted(semconv.METRIC_TRIPS) == 2


@pytest.mark.parametrize(
    ("tool", "result", "limit", "reason"),
    [
        ("read_file", "the text", 3, "repeat"),
        ("read_file", "503 service unavailable", 6, "transient"),
        ("create_ticket", '{"id": 7, "created": true}', 4, "acted"),
        ("scroll_down", "ok", 9, "acknowledged"),
        ("get_build_status", "running", 20, "patient"),
    ],
)
def test_a_refusal_says_why_its_limit_is_what_it_is(tool: str, result: str, limit: int, reason: str) -> None:
    """The reason for the limit of a repeated call is on its span, and on the event with the limit."""
    with guarded() as recording, loopguard.turn():
        for _ in range(limit):
            loopguard.call(tool, {}, lambda: result)
    span = recording.spans[-1]
    (event,) = span.events
    assert (span.attributes or {})[semconv.OUTCOME] == "blocked"
    assert (span.attributes or {})[semconv.LIMIT_REASON] == reason
    assert (event.attributes or {})[semconv.LIMIT] == limit
    assert (event.attributes or {})[semconv.LIMIT_REASON] == reason


def test_a_trip_of_another_rule_has_no_reason_of_repeats() -> None:
    """Its limit does not depend on what a repeat of the call proves. Nor is the reason a label of a metric."""
    with guarded() as recording, loopguard.turn():
        for path in "abc":
            loopguard.call("open", {"path": path}, lambda path: "Error: the disk is full")
        for _ in range(3):
            loopguard.call("look", {"path": "a"}, look)
    trips = [event.attributes or {} for span in recording.spans for event in span.events]
    reasons = {(str(trip[semconv.MODE]), trip.get(semconv.LIMIT_REASON)) for trip in trips}
    assert reasons == {("error_repeat", None), ("generic_repeat", "repeat")}
    points = [*recording.points(semconv.METRIC_TRIPS), *recording.points(semconv.METRIC_TOOL_TRIPS)]
    assert not any(semconv.LIMIT_REASON in point.attributes for point in points)


def test_each_refusal_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Tool, abbreviated fingerprint, attempt and mode; no argument."""
    with caplog.at_level(logging.INFO, "otel_loopguard"), guarded():
        stuck()
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "Refused look (arguments blake2b-64:" in warning.getMessage()
    assert "attempt 3" in warning.getMessage()
    assert "generic_repeat" in warning.getMessage()
    assert warning.getMessage().endswith("/docs/how-to/refused-too-much.md")  # why the limit is 3, and how to raise it
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


def test_a_conclusion_that_is_only_due_has_no_line_and_counts_as_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    """Where no client is read its request is never made. At an executor the call is refused, so the sum has it."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded(), loopguard.turn():
        for _ in range(10):
            loopguard.call("look", {"path": "a"}, look)
    refused, summed = messages(caplog)
    assert refused.startswith("Refused look")
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
    assert "generic_repeat, after 1 call refused (generic_repeat 1)" in raised
    assert "goes on" in swallowed


def test_a_stuck_run_has_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    """The first refusal, and the line of its end with the sum of all: no second sum comes after it."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded(), suppress(ToolLoopError), loopguard.turn():
        for _ in range(20):
            loopguard.call("look", {"path": "a"}, look)
    refused, raised = messages(caplog)
    assert refused.startswith("Refused look")
    assert raised.endswith("attempt 13, limit 3: generic_repeat, after 10 calls refused (generic_repeat 10)")


@pytest.mark.parametrize("action", ["observe", "nudge"])
def test_calls_that_only_the_ceiling_lets_run_have_a_line_and_a_sum(
    action: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Every one of them is counted, also those whose trip is not due to be reported."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded(Policy(action=action)) as recording:
        with loopguard.turn():
            for _ in range(30):
                loopguard.call("look", {"path": "a"}, look)
        turn_id = (recording.spans[0].attributes or {})[semconv.TURN_ID]
    first, last = messages(caplog)
    assert first.startswith("Would have refused look (arguments blake2b-64:")
    assert f"in turn {turn_id}, attempt 3, limit 3: generic_repeat. It ran: its action is {action};" in first
    assert last == f"Turn {turn_id} ended with 28 calls that would have been refused (generic_repeat 28)."


def test_a_call_without_proof_has_the_reason_in_its_line(caplog: pytest.LogCaptureFixture) -> None:
    """While the store of a shared turn is away, another process may have changed what a call reads."""
    store = FlakyStore()
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded() as recording:
        assert recording.runtime is not None
        recording.runtime.guard.store = store
        with loopguard.turn(turn_id="shared"):
            loopguard.call("look", {"path": "a"}, look)
            store.away()
            for _ in range(3):
                loopguard.call("look", {"path": "a"}, look)
    assert "generic_repeat. It ran, because the shared store did not answer" in messages(caplog)[0]


def test_calls_outside_of_any_run_have_the_same_line_and_their_own_advice(caplog: pytest.LogCaptureFixture) -> None:
    """They would have been refused, and the line names the block that makes them a turn."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded():
        for _ in range(4):
            loopguard.call("look", {"path": "a"}, look)
    (line,) = messages(caplog)
    assert line.startswith("Would have refused look")
    assert "`with otel_loopguard.turn():`" in line
    assert "ENFORCE_WITHOUT_TURN=true, under which unrelated requests may share a turn" in line


def test_a_line_names_the_package_where_no_logging_is_set_up(tmp_path: Path) -> None:
    """Where logging is set up, its format has the name."""
    lines = []
    for set_up in ("", "import logging; logging.basicConfig()"):
        app = tmp_path / "app.py"
        app.write_text(f"{set_up}\nimport logging\nimport otel_loopguard.telemetry.loop_event\n{LOG_ONE}")
        lines.append(subprocess.run([sys.executable, app], capture_output=True, text=True, check=True).stderr)
    assert lines == ["otel_loopguard: Refused a\n", "WARNING:otel_loopguard:Refused a\n"]


LOG_ONE = "logging.getLogger('otel_loopguard').warning('Refused %s', 'a')"


def call_for_ever(name: str) -> None:
    with loopguard.turn():
        for _ in range(20):
            loopguard.call(name, {"path": "a"}, look if name == "look" else None, known_tools=["look"])


def test_the_error_tells_how_deep_the_loop_was() -> None:
    """It has the attempts and the refusals, and says of a name that does not exist that there is no such tool."""
    with guarded():
        with pytest.raises(
            ToolLoopError,
            match=r"called look .* 13 attempts of this call\)\. The run was ended after 10 refusals in a row\.",
        ):
            call_for_ever("look")
        with pytest.raises(ToolLoopError, match="called tools that do not exist again"):
            call_for_ever("nope")
