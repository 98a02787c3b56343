"""Trip events on spans and in logs, and the warnings in the log of the program."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Ledger, Policy, RunBudgetError, ToolLoopError, semconv
from otel_loopguard.policy_files.load import load_preset
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
    """Tool, words for the loop, the number of the attempt, mode and limit; no argument."""
    with caplog.at_level(logging.INFO, "otel_loopguard"), guarded():
        stuck()
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    told = "Refused look: same call, same result, for the 3rd time (generic_repeat, limit 3) ["
    assert warning.getMessage().startswith(told)
    assert warning.getMessage().endswith("/docs/how-to/refused-too-much.md")  # why the limit is 3, and how to raise it
    assert caplog.text.count("OTEL_PYTHON_LOOPGUARD_ACTION=observe") == 2  # at start, and in the first refusal


def test_a_policy_that_counts_calls_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Its words are those of the count: nobody has looked at results."""
    numbers = count()
    with (
        caplog.at_level(logging.WARNING, "otel_loopguard"),
        guarded(load_preset("repeat_abort").policy),
        suppress(ToolLoopError),
        loopguard.turn(),
    ):
        while True:
            loopguard.call("look", {"path": "a"}, lambda path: f"{path}: {next(numbers)}")
    assert "at look: same call, for the 4th time (generic_repeat, limit 4)" in caplog.text


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_turn_has_one_line_for_each_mode(caplog: pytest.LogCaptureFixture) -> None:
    """It has the ids by which the call is found in the program's own logs and traces."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded() as recording, loopguard.turn():
        for number in range(7):
            loopguard.call("look", {"path": "a"}, look, call_id=f"call_{number}")
    refused = recording.spans[2]
    turn_id = (refused.attributes or {})[semconv.TURN_ID]
    (line,) = messages(caplog)
    assert f" [call=call_2 trace={refused.context.trace_id:032x} turn={turn_id}]. " in line


@pytest.mark.parametrize("call_id", [None, "", "a\nRefused b\x1b[2J" + "x" * 100])
def test_an_id_of_a_call_cannot_write_a_line_of_its_own(call_id: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """A model or a server chose it: it is shortened, and shown without blanks and control characters."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded(), loopguard.turn():
        for _ in range(3):
            loopguard.call("look", {"path": "a"}, look, call_id=call_id)
    (line,) = messages(caplog)
    assert line.isprintable()
    shown = re.findall(r"call=(\S+)", line)
    assert [one[:11] for one in shown] == (["a_Refused_b"] if call_id else [])
    assert all(len(one) <= 64 for one in shown)


def test_a_conclusion_that_is_only_due_has_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """Where no client is read its request is never made. At an executor the call is refused."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded(), loopguard.turn():
        for _ in range(10):
            loopguard.call("look", {"path": "a"}, look)
    (refused,) = messages(caplog)
    assert refused.startswith("Refused look")


def test_an_error_that_the_program_swallows_is_no_end_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """The log says that the run was ended, and once that the program goes on."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded(Policy(abort_after=1)), loopguard.turn():
        for _ in range(12):
            with suppress(ToolLoopError):
                loopguard.call("look", {"path": "a"}, look)
    refused, raised, swallowed = messages(caplog)
    assert refused.startswith("Refused look")
    assert raised.startswith("Ended the run after 1 refusal (abort_after 1), at look: same call, same result")
    assert "goes on" in swallowed


def test_a_stuck_run_has_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    """The first refusal, and its end, with the limit that decided and the page that tells how to go on."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded(), suppress(ToolLoopError), loopguard.turn():
        for _ in range(20):
            loopguard.call("look", {"path": "a"}, look)
    refused, raised = messages(caplog)
    assert refused.startswith("Refused look")
    assert raised.startswith("Ended the run after 10 refusals (abort_after 10), at look: ")
    assert "for the 13th time (generic_repeat, limit 3)" in raised
    assert raised.endswith("/docs/how-to/catch-tool-loop-error.md")


def test_a_run_beyond_its_budget_has_lines_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """They name the error to be caught, and what is spent in the currency of the policy."""
    budget = Policy(budget={"turn": {"cost": 0.5}})
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded(budget), loopguard.turn():
        turn = loopguard.current_turn()
        assert turn is not None
        turn.spend(Ledger(requests=1, cost=0.75))
        for number in range(20):
            with suppress(RunBudgetError):
                loopguard.call("look", {"path": number}, look)
    refused, raised, swallowed = messages(caplog)
    assert refused.startswith("Refused look: turn.cost 0.75 of 0.5 is spent (run_budget) [")
    assert refused.endswith("/docs/how-to/budget.md")
    assert " Catch RunBudgetError to answer the user: " in raised
    assert raised.endswith("/docs/how-to/catch-tool-loop-error.md#a-budget")
    assert swallowed.startswith("The program catches the RunBudgetError")


@pytest.mark.parametrize("action", ["observe", "nudge"])
def test_calls_that_only_the_ceiling_lets_run_have_a_line(action: str, caplog: pytest.LogCaptureFixture) -> None:
    """It says that the call ran, and why. The line at exit, the metrics and the spans have every one of them."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded(Policy(action=action)) as recording:
        with loopguard.turn():
            for _ in range(30):
                loopguard.call("look", {"path": "a"}, look)
        assert recording.runtime is not None
        calls = recording.runtime.providers.summary.loop_calls
    (line,) = messages(caplog)
    assert line.startswith(
        "Would have refused look: same call, same result, for the 3rd time (generic_repeat, limit 3)"
    )
    assert f"It ran: the action {action} refuses nothing." in line
    assert calls == {"that would have been refused": {"generic_repeat": 28}}
    assert recording.counted(semconv.METRIC_TRIPS, loopguard__verdict="block", loopguard__action=action) == 28
    assert (
        recording.counted(semconv.METRIC_TOOL_TRIPS, loopguard__mode="generic_repeat") == 29
    )  # and the nudge at the 2nd
    assert [(span.attributes or {}).get(semconv.VERDICT) for span in recording.spans] == [
        None,
        "nudge",
        *["block"] * 28,
    ]
    assert sum(len(span.events) for span in recording.spans) < 20


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
    assert "It ran, because the shared store did not answer" in messages(caplog)[0]


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
