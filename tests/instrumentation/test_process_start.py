"""Process start: the loop of an unchanged program is stopped under any setting of OpenTelemetry."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_loopguard import semconv
from tests.telemetry.otlp import attributes, receiver

from .processes import EXAMPLE, NOTHING_EXPORTED, clean_environment, start

if TYPE_CHECKING:
    from collections.abc import Mapping

pytest.importorskip("langchain")

STOPPED = "The file was read 2 times."
NOT_STOPPED = "The file was read 12 times."


def test_the_stuck_agent_is_stopped_and_seen() -> None:
    """The third identical read is refused; span, event and counters arrive, and counters link to the trace."""
    with receiver() as received:
        ended = start(EXAMPLE, environment=received.environment)
        assert ended.returncode == 0, ended.stderr
        assert STOPPED in ended.stdout
        assert "tool_loop_detected" in ended.stdout
        assert "Refused read_file" in ended.stderr
        assert [attributes(span)[semconv.OUTCOME] for span in received.spans] == ["executed", "nudged", "blocked"]
        assert {span.name for span in received.spans} == {"execute_tool read_file"}
        assert [span.name for span in received.all_spans if span not in received.spans] == ["invoke_agent"]
        assert len({span.trace_id for span in received.all_spans}) == 1
        (event,) = received.spans[2].events
        assert event.name == "tool_loop_detected"
        assert attributes(event)[semconv.MODE] == "generic_repeat"
        counted = [point for point in received.points(semconv.METRIC_TRIPS) if point["value"]]
        assert {(point[semconv.ACTION], point["value"]) for point in counted} == {("nudge", 1), ("block", 1)}
        assert all(point["exemplars"] for point in counted)


def test_a_working_agent_is_left_alone() -> None:
    """A working agent has no trip, and the same answer as without the guard."""
    with receiver() as received:
        ended = start(EXAMPLE, "--working", environment=received.environment)
        assert "The agent answers: Done." in ended.stdout
        assert [attributes(span)[semconv.OUTCOME] for span in received.spans] == ["executed"] * 3
        assert not any(span.events for span in received.spans)
        assert all(point["value"] == 0 for point in received.points(semconv.METRIC_TRIPS))


@pytest.mark.parametrize(
    "settings",
    [
        {"OTEL_TRACES_SAMPLER": "always_off"},
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_PYTHON_CONFIGURATOR": "there_is_none"},
        {"OTEL_PYTHON_TRACER_PROVIDER": "default_tracer_provider"},
        {"OTEL_PYTHON_LOOPGUARD_EVENTS": "log"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_the_loop_is_stopped_whatever_becomes_of_telemetry(settings: Mapping[str, str]) -> None:
    """Protection does not depend on a sampler, an SDK or a configurator."""
    ended = start(EXAMPLE, environment={**NOTHING_EXPORTED, **settings})
    assert STOPPED in ended.stdout, ended.stderr


def test_a_program_that_switches_the_guard_on_itself_does_not_need_the_start_of_opentelemetry(tmp_path: Path) -> None:
    """A wrong limit keeps ``opentelemetry-instrument`` from loading any instrumentation."""
    app = tmp_path / "app.py"
    app.write_text(
        "import runpy, otel_loopguard\n"
        "otel_loopguard.instrument()\n"
        f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\n"
    )
    wrong = {**NOTHING_EXPORTED, "OTEL_ATTRIBUTE_COUNT_LIMIT": "many"}
    assert NOT_STOPPED in start(EXAMPLE, environment=wrong).stdout
    assert STOPPED in start(app, environment=wrong).stdout


def test_trips_are_counted_though_nothing_is_sampled() -> None:
    """With ``always_off`` there is no span, and the counters are right."""
    with receiver() as received:
        start(EXAMPLE, environment={**received.environment, "OTEL_TRACES_SAMPLER": "always_off"})
        assert received.spans == []
        assert sum(point["value"] for point in received.points(semconv.METRIC_TRIPS)) == 2


@pytest.mark.parametrize(
    ("prelude", "remedy"),
    [
        ("sys.modules['opentelemetry.distro'] = None", "pip install opentelemetry-distro"),  # as if not installed
        ("", "`otel-loopguard doctor -- COMMAND` names the reason."),
    ],
    ids=["without-distro", "with-distro"],
)
def test_without_an_sdk_the_remedy_fits_the_environment(prelude: str, remedy: str, tmp_path: Path) -> None:
    """Nothing is exported. The distro is named where it is missing, and once."""
    app = tmp_path / "app.py"
    app.write_text(f"import runpy, sys\n{prelude}\nrunpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\n")
    ended = start(app, environment={**NOTHING_EXPORTED, "OTEL_PYTHON_CONFIGURATOR": "there_is_none"})
    (line,) = [line for line in ended.stderr.splitlines() if "No OpenTelemetry SDK is set up" in line]
    assert line.endswith(f"and nothing is exported. {remedy}")


def test_a_start_in_code_needs_no_sdk(tmp_path: Path) -> None:
    """The program may want no telemetry: it has no warning, and at the level INFO the way to telemetry."""
    app = tmp_path / "app.py"
    app.write_text(
        "import logging, runpy, otel_loopguard\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "otel_loopguard.instrument()\n"
        f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\n"
    )
    ended = subprocess.run(
        [sys.executable, str(app)], env=clean_environment({}), capture_output=True, text=True, timeout=120, check=False
    )
    assert STOPPED in ended.stdout
    (line,) = [line for line in ended.stderr.splitlines() if "No OpenTelemetry SDK is set up" in line]
    assert line.startswith("INFO:otel_loopguard:")
    assert line.endswith("To export, set up the SDK, or give providers to otel_loopguard.instrument().")


def test_it_can_be_left_out() -> None:
    """``OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=loopguard`` works as for every instrumentation."""
    ended = start(EXAMPLE, environment={**NOTHING_EXPORTED, "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "loopguard"})
    assert NOT_STOPPED in ended.stdout


@pytest.mark.parametrize("action", ["observe", "off"])
def test_it_can_be_told_to_only_watch(action: str) -> None:
    """Under ``observe`` and ``off`` every call runs."""
    ended = start(EXAMPLE, environment={**NOTHING_EXPORTED, "OTEL_PYTHON_LOOPGUARD_ACTION": action})
    assert NOT_STOPPED in ended.stdout


def test_a_wrong_setting_is_told_and_never_kills_the_program() -> None:
    """A misspelt action is a logged error that names it, and nothing is refused."""
    ended = start(EXAMPLE, environment={**NOTHING_EXPORTED, "OTEL_PYTHON_LOOPGUARD_ACTION": "observ"})
    assert NOT_STOPPED in ended.stdout
    assert "observ" in ended.stderr


def test_a_provider_that_is_set_later_gets_the_spans(tmp_path: Path) -> None:
    """A program that sets OpenTelemetry up itself, after us, has our spans with their events."""
    app = tmp_path / "app.py"
    app.write_text(
        "import runpy, sys\n"
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from opentelemetry.sdk.trace.export import SimpleSpanProcessor\n"
        "from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter\n"
        "exporter = InMemorySpanExporter()\n"
        "provider = TracerProvider()\n"
        "provider.add_span_processor(SimpleSpanProcessor(exporter))\n"
        "trace.set_tracer_provider(provider)\n"
        f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\n"
        "print([event.name for span in exporter.get_finished_spans() for event in span.events])\n"
    )
    ended = start(app, environment={**NOTHING_EXPORTED, "OTEL_PYTHON_CONFIGURATOR": "there_is_none"})
    assert "['tool_loop_detected', 'tool_loop_detected']" in ended.stdout, ended.stderr


def test_the_help_lists_the_settings_and_never_the_key() -> None:
    """The hash key is no flag, because other users can read the flags of a process."""
    if not any(point.name == "loopguard" for point in entry_points(group="opentelemetry_environment_variables")):
        pytest.skip("the installed package has no opentelemetry_environment_variables entry point yet")
    command = Path(sys.executable).with_name("opentelemetry-instrument")
    text = subprocess.run(
        [str(command), "--help"], capture_output=True, text=True, timeout=60, check=True, env=clean_environment()
    ).stdout
    assert "--loopguard_action" in text
    assert "--loopguard_conversation_id" in text
    assert "hash_key" not in text
    ended = start(EXAMPLE, flags=("--loopguard_action", "observe"))
    assert NOT_STOPPED in ended.stdout


def test_importing_the_package_costs_next_to_nothing() -> None:
    """Importing the package imports no OpenTelemetry, wrapt or framework."""
    code = (
        "import sys; import otel_loopguard; "
        "print([name for name in ('opentelemetry', 'wrapt', 'orjson', 'rapidfuzz', 'langchain_core', 'asyncio') "
        "if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == "[]"


def test_instrumenting_imports_no_framework() -> None:
    """A program that uses no agent framework never pays for one."""
    code = (
        "import sys, otel_loopguard; otel_loopguard.instrument(); "
        "print([name for name in ('langchain_core', 'langgraph', 'mcp', 'agents') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == "[]"


CALLS = """
import otel_loopguard as loopguard
with loopguard.turn():
    for number in range(3):
        loopguard.call("look", {"number": number}, lambda number: f"text of {number}")
print("done")
"""


@pytest.mark.parametrize(
    ("set_up", "times"),
    [
        ("import logging; logging.basicConfig(level=logging.INFO)", 1),
        ("import logging; logging.basicConfig()", 0),
        ("", 0),
    ],
    ids=["logs at INFO", "logs at WARNING", "sets up no logging"],
)
def test_the_line_at_start_is_heard_once_where_somebody_listens(tmp_path: Path, set_up: str, times: int) -> None:
    """If logging is set up after the start, the policy is logged at the first call."""
    app = tmp_path / "app.py"
    app.write_text(set_up + CALLS)
    ended = start(app)
    assert "done" in ended.stdout, ended.stderr
    assert ended.stderr.count("otel_loopguard is on: action block, policy default.") == times, ended.stderr
    assert times or ended.stderr == "otel_loopguard: 3 tool calls, no loop.\n"
