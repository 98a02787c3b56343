"""Settings, names, labels, log events, the shield, agent spans."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard import semconv
from otel_loopguard.core.model import ToolCall
from otel_loopguard.errors import ToolLoopError
from otel_loopguard.shield import Shield
from otel_loopguard.spans.open_spans import MOST_SPANS, OpenSpans
from otel_loopguard.telemetry import events
from otel_loopguard.telemetry.names import Labels, shown_name
from otel_loopguard.telemetry.settings import Settings
from otel_loopguard.testing import ScriptedAgent, guarded


def stuck(tool: str = "look", known: bool = True) -> None:
    """Three equal calls of a tool."""
    ScriptedAgent({"look": lambda path: "text"} if known else {}, [(tool, {"path": "a"})] * 3).run()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Settings()),
        ({"EVENTS": "log"}, Settings(span_events=False, log_events=True)),
        ({"EVENTS": "BOTH"}, Settings(log_events=True)),
        ({"CONVERSATION_ID": "hash"}, Settings(conversation_id="hash")),
        ({"ENFORCE_WITHOUT_TURN": " True "}, Settings(enforce_without_turn=True)),
        ({"EVENTS": "", "CONVERSATION_ID": ""}, Settings()),
    ],
)
def test_settings_from_the_environment(environ: dict[str, str], expected: Settings) -> None:
    """What is said is taken, in any case and with blanks; what is empty was not said."""
    assert Settings.from_environment({f"OTEL_PYTHON_LOOPGUARD_{k}": v for k, v in environ.items()}) == expected


def test_a_misspelt_setting_hides_rather_than_shows(caplog: pytest.LogCaptureFixture) -> None:
    """The error names variable and remedy; a word that was meant to hide does not end in showing."""
    settings = Settings.from_environment({"OTEL_PYTHON_LOOPGUARD_CONVERSATION_ID": "hsah"})
    assert settings.conversation_id == "off"
    assert "OTEL_PYTHON_LOOPGUARD_CONVERSATION_ID must be one of raw, hash, off" in caplog.text


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (ToolCall("look", known_tools=["look"]), "look"),
        (ToolCall("lok", known_tools=["look"]), "_unknown"),
        (ToolCall("server.look-up:v2", known_tools=None), "server.look-up:v2"),
        (ToolCall("look at this: hunter2", known_tools=None), "_unknown"),
        (ToolCall("x" * 65, known_tools=None), "_unknown"),
        (ToolCall("look at this", known_tools=["look at this"]), "look at this"),
    ],
)
def test_names_that_nobody_registered_are_not_shown(call: ToolCall, shown: str) -> None:
    """A name is the model's output until somebody registered it."""
    assert shown_name(call) == shown


def test_labels_are_bounded() -> None:
    """Two hundred names are labels, whatever comes after them is one more."""
    label = Labels()
    names = {label(f"tool_{number}") for number in range(10_000)}
    assert len(names) == 201
    assert "_other" in names
    assert label("tool_3") == "tool_3"
    assert label("_unknown") == "_unknown"


def test_an_unknown_tools_name_is_a_hash() -> None:
    """Two calls of the same made-up name can be seen to be the same, and not what it was."""
    with guarded() as recording:
        stuck("drop everything", known=False)
        spans = [span.attributes or {} for span in recording.spans]
        assert {span[semconv.TOOL_NAME] for span in spans} == {"_unknown"}
        assert len({span[semconv.TOOL_NAME_HASH] for span in spans}) == 1
        assert str(spans[0][semconv.TOOL_NAME_HASH]).startswith("blake2b-64:")
        assert spans[0][semconv.TOOL_REGISTERED] is False


@pytest.mark.parametrize(("span_events", "log_events"), [(True, False), (False, True), (True, True)])
def test_events_go_where_the_settings_say(span_events: bool, log_events: bool) -> None:
    """On the span, as a log record with the same attributes and the span's ids, or both."""
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


def test_one_line_at_start_says_what_will_happen(caplog: pytest.LogCaptureFixture) -> None:
    """The action, and how to have less of it."""
    with caplog.at_level(logging.INFO, "otel_loopguard"), guarded(loopguard.Policy(action=loopguard.Action.NUDGE)):
        pass
    assert "otel_loopguard is on: action nudge, policy given in code" in caplog.text


def test_a_conversation_id_can_be_hashed_or_left_out() -> None:
    """Hashed, two turns of a conversation can still be seen to be of one."""
    shown: dict[str, set[Any]] = {}
    for how in ("raw", "hash", "off"):
        with guarded(settings=Settings(conversation_id=how)) as recording:
            for _ in range(2):
                with loopguard.turn("ada@example.com"):
                    loopguard.call("look", {}, lambda: "x")
            shown[how] = {(span.attributes or {}).get(semconv.CONVERSATION_ID) for span in recording.spans}
    assert shown["raw"] == {"ada@example.com"}
    assert shown["off"] == {None}
    (hashed,) = shown["hash"]
    assert str(hashed).startswith("blake2b-64:")


def test_the_shield_takes_faults_in_and_tells_no_value(caplog: pytest.LogCaptureFixture) -> None:
    """Counted each time, logged once a site, with type and place."""
    counted: list[str] = []
    shield = Shield(counted.append)
    for _ in range(3):
        with shield("here"):
            raise KeyError("a value")
    with shield("there"):
        pass
    assert counted == ["here"] * 3
    assert len(caplog.records) == 1
    assert "KeyError in test_events.py" in caplog.text
    assert "a value" not in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit(), SystemExit(1)])
def test_what_is_no_fault_passes_the_shield(error: BaseException) -> None:
    """Interrupts and the end of a run are nobody's fault."""
    with pytest.raises(type(error)), Shield()("here"):
        raise error


def test_the_end_of_a_run_passes_the_shield() -> None:
    """``ToolLoopError`` is raised on purpose."""
    error = ToolLoopError("over", tool_name="look", mode="m", repeats=1, limit=1)
    with pytest.raises(ToolLoopError), Shield()("here"):
        raise error


def test_spans_that_never_end_are_bounded() -> None:
    """A program that forgets to end its spans does not grow because of us."""
    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("app")
        spans = OpenSpans()
        for _ in range(MOST_SPANS + 10):
            spans.started(tracer.start_span("agent", attributes={"gen_ai.operation.name": "invoke_agent"}))  # type: ignore[arg-type]
        assert len(spans) == MOST_SPANS
        spans.clear()
        assert spans.agent() is None
