"""A wrong name in the environment of ``opentelemetry-instrument`` does not take the guard off the program."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from otel_loopguard import semconv
from tests.instrumentation.processes import EXAMPLE, NOTHING_EXPORTED, clean_environment, start
from tests.telemetry.otlp import receiver

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("langchain")

STOPPED = "The file was read 2 times."
NOT_STOPPED = "The file was read 12 times."
ENVIRONMENT = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('OTEL_')}))\n"


def lines(stderr: str) -> list[str]:
    """The lines that are about neither refusals nor calls."""
    of_calls = re.compile(r"otel_loopguard: (Refused |Ended |\d+ tool calls)")
    return [line for line in stderr.splitlines() if not of_calls.match(line)]


def test_the_loop_is_stopped_and_one_line_names_the_mistake(tmp_path: Path) -> None:
    """The line has the wrong name and the installed ones; the exit status is that of the program."""
    app = tmp_path / "app.py"
    app.write_text(f"import runpy\nrunpy.run_path({str(EXAMPLE)!r}, run_name='__main__')\nraise SystemExit(7)\n")
    ended = start(app, environment={**NOTHING_EXPORTED, "OTEL_TRACES_EXPORTER": "bogus"})
    assert (ended.returncode, STOPPED in ended.stdout) == (7, True), ended.stderr
    (line,) = lines(ended.stderr)
    assert line.startswith("otel_loopguard: OTEL_TRACES_EXPORTER: there is no 'bogus', only console, otlp")
    assert line.endswith(". Left out, so that OpenTelemetry starts and the guard is on.")


def test_several_mistakes_are_one_line() -> None:
    """Each has its variable and the installed names; an unknown protocol of OTLP is one of them."""
    mistakes = {
        "OTEL_EXPORTER_OTLP_PROTOCOL": ("http/xml", ""),
        "OTEL_METRICS_EXPORTER": ("bogus", "console, otlp"),
        "OTEL_LOGS_EXPORTER": ("bogus", "console, otlp"),
        "OTEL_PYTHON_ID_GENERATOR": ("bogus", "random"),
    }
    ended = start(EXAMPLE, environment={variable: value for variable, (value, _) in mistakes.items()})
    assert STOPPED in ended.stdout, ended.stderr
    (line,) = lines(ended.stderr)
    told = [f"{variable}: there is no {value!r}, only {known}" for variable, (value, known) in mistakes.items()]
    assert [one for one in told if one not in line] == [], line


def test_the_other_signals_are_exported() -> None:
    """With a wrong exporter of traces the counters arrive."""
    with receiver() as received:
        ended = start(EXAMPLE, environment={**received.environment, "OTEL_TRACES_EXPORTER": "bogus"})
        assert STOPPED in ended.stdout, ended.stderr
        assert sum(point["value"] for point in received.points(semconv.METRIC_TRIPS)) == 2
        assert received.spans == []


def test_the_other_exporters_of_a_signal_export() -> None:
    """Next to a wrong exporter of traces the right one gets the spans."""
    with receiver() as received:
        ended = start(EXAMPLE, environment={**received.environment, "OTEL_TRACES_EXPORTER": "bogus,otlp"})
        assert STOPPED in ended.stdout, ended.stderr
        assert len(received.spans) == 3


@pytest.mark.parametrize(
    "more",
    [
        {"OTEL_TRACES_EXPORTER": " console , console"},
        {"OTEL_TRACES_EXPORTER": "bogus", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "loopguard"},
        {"OTEL_TRACES_EXPORTER": "bogus", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "*"},
    ],
    ids=["valid", "without the guard", "without instrumentations"],
)
def test_an_environment_is_left_as_it_is(more: dict[str, str], tmp_path: Path) -> None:
    """Nothing is changed and no line is written if all names are right, or if the guard is not to be loaded."""
    app = tmp_path / "app.py"
    app.write_text(ENVIRONMENT)
    given = {**NOTHING_EXPORTED, "OTEL_EXPORTER_OTLP_PROTOCOL": " grpc", **more}
    ended = start(app, environment=given)
    found = json.loads(ended.stdout)
    assert {name: found[name] for name in given} == given
    assert found.keys() - given.keys() == {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"} - given.keys()
    assert "otel_loopguard:" not in ended.stderr


def test_a_fault_of_its_own_leaves_the_program_and_its_environment(tmp_path: Path, monkeypatch) -> None:
    """A package whose entry points cannot be read is no reason not to start."""
    info = tmp_path / "broken-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0\n", "utf-8")
    (info / "entry_points.txt").write_text("[some]\nthis is no entry point\n", "utf-8")
    app = tmp_path / "app.py"
    app.write_text(ENVIRONMENT + "raise SystemExit(7)\n")
    monkeypatch.chdir(tmp_path)
    ended = start(app, environment={**NOTHING_EXPORTED, "OTEL_TRACES_EXPORTER": "bogus"})
    assert (ended.returncode, json.loads(ended.stdout)["OTEL_TRACES_EXPORTER"]) == (7, "bogus")
    assert "otel_loopguard had a fault of its own at launch" in ended.stderr


def test_only_the_launcher_acts() -> None:
    """Importing the modules that other code imports, too, changes nothing; the launcher's loads no other room."""
    code = (
        "import os, sys, otel_loopguard.component_names, otel_loopguard.environment_variables\n"
        "before = os.environ['OTEL_TRACES_EXPORTER']\n"
        "import otel_loopguard.launch\n"
        "rooms = sorted(name for name in sys.modules if name.startswith('otel_loopguard.'))\n"
        "foreign = [name for name in ('opentelemetry', 'wrapt', 'orjson') if name in sys.modules]\n"
        "print(before, os.environ['OTEL_TRACES_EXPORTER'], foreign, len(rooms))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True,
        env=clean_environment({"OTEL_TRACES_EXPORTER": "bogus"}),
    )  # fmt: skip
    assert ended.stdout.split("[")[0] == "bogus none "
    assert "[] 7" in ended.stdout, ended.stdout


def test_a_guarded_program_does_not_load_the_comparison_of_words(tmp_path: Path) -> None:
    """It is needed for a mistake in a policy, an unknown tool or a query alone, and took a third of the start."""
    app = tmp_path / "app.py"
    app.write_text(
        "import otel_loopguard, sys\n"
        "otel_loopguard.call('look', {}, str)\n"
        "print('otel_loopguard.guard' in sys.modules, 'rapidfuzz' in sys.modules)\n"
    )
    assert start(app, environment=NOTHING_EXPORTED).stdout.split() == ["True", "False"]
