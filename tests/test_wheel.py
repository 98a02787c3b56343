"""The wheel as a user installs it: with plain pip and nothing of this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.telemetry.otlp import receiver as receiving

ROOT = Path(__file__).resolve().parents[1]
APP = """
import otel_loopguard as loopguard

@loopguard.tool
def read_file(path):
    return "the same old text"

with loopguard.turn():
    print([str(read_file("a")) for _ in range(3)][-1])
"""


def run(*command: object, **more):
    """A command that must succeed; what it printed."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=300, check=False, **more
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The programs' folder of a fresh environment with the wheel and the distro, as the README has it."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", folder / "venv")
    programs = folder / "venv" / "bin"
    pip = (programs / "python", "-m", "pip", "--disable-pip-version-check", "-q")
    run(*pip, "wheel", "--no-deps", "-w", folder, ROOT)
    run(*pip, "install", next(folder.glob("*.whl")), "opentelemetry-distro")
    return programs


def test_a_span_arrives_and_the_loop_is_stopped(installed, tmp_path):
    """``opentelemetry-instrument python app.py`` exports the guarded calls, and the third equal one is refused."""
    app = tmp_path / "app.py"
    app.write_text(APP)
    with receiving() as receiver:
        environment = {**os.environ, **receiver.environment, "PYTHONPATH": ""}
        told = run(installed / "opentelemetry-instrument", installed / "python", app, env=environment, cwd=tmp_path)
        assert "tool_loop_detected" in told
        assert [span.name for span in receiver.spans] == ["execute_tool read_file"] * 3


def test_the_command_line_comes_with_it(installed, tmp_path):
    """The console script runs, knows the presets and has the stack's files."""
    assert run(installed / "otel-loopguard", "--version").startswith("otel-loopguard ")
    assert "repeat_hint" in run(installed / "otel-loopguard", "policy", "show", "--preset", "repeat_hint")
    run(installed / "otel-loopguard", "stack", "export", tmp_path / "stack")
    assert (tmp_path / "stack" / "collector-config.yaml").exists()
