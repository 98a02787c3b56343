"""The line on standard error at the end of a program."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from otel_loopguard.telemetry.exit_summary import ExitSummary
from tests.instrumentation.processes import clean_environment, start

if TYPE_CHECKING:
    from pathlib import Path

LOOP = """
import logging
import otel_loopguard as loopguard
logging.disable()
with loopguard.turn():
    for _ in range({calls}):
        loopguard.call("look", {{"path": "a"}}, lambda path: "text")
"""
GUARDED = "import otel_loopguard; otel_loopguard.instrument()\n"


def ended(tmp_path: Path, code: str, more: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    app = tmp_path / "app.py"
    app.write_text(code)
    return subprocess.run(
        [sys.executable, app], env=clean_environment(more), capture_output=True, text=True, timeout=60, check=False
    )


def last_line(tmp_path: Path, code: str, **more: str) -> str:
    environment = {f"OTEL_PYTHON_LOOPGUARD_{name}": value for name, value in more.items()}
    lines = ended(tmp_path, code, environment).stderr.splitlines()
    return lines[-1] if lines else ""


def test_it_has_calls_loops_and_refusals(tmp_path: Path) -> None:
    """Refused calls, and under observe those that would have been, with their modes; also where a crash ends it."""
    refused = last_line(tmp_path, LOOP.format(calls=6) + "raise SystemExit(3)")
    assert refused == "otel_loopguard: 6 tool calls, 1 loop, 1 nudge, 4 calls refused (generic_repeat 4)."
    observed = last_line(tmp_path, LOOP.format(calls=6), ACTION="observe")
    assert observed == (
        "otel_loopguard: 6 tool calls, 1 loop, 4 calls that would have been refused (generic_repeat 4)."
    )
    crashed = last_line(tmp_path, LOOP.format(calls=30))
    assert crashed == (
        "otel_loopguard: 13 tool calls, 1 loop, 1 nudge, 10 calls refused (generic_repeat 10), 1 run ended."
    )
    assert last_line(tmp_path, LOOP.format(calls=1)) == "otel_loopguard: 1 tool call, no loop."


SWALLOWS = """
import logging
import otel_loopguard as loopguard
logging.disable()
with loopguard.turn():
    for _ in range(20):
        try:
            loopguard.call("look", {"path": "a"}, lambda path: "text")
        except loopguard.ToolLoopError:
            pass
"""


def test_calls_that_raise_the_error_are_in_the_sum_where_the_program_catches_it(tmp_path: Path) -> None:
    """Each call is in it: one that ran, one with a nudge, ten refused ones, and eight errors of one run."""
    assert last_line(tmp_path, SWALLOWS) == (
        "otel_loopguard: 20 tool calls, 1 loop, 1 nudge, 10 calls refused (generic_repeat 10), "
        "8 calls ended with RunStopped, 1 run ended."
    )


CUSTOMERS = """
import logging
import otel_loopguard as loopguard
logging.disable()
with loopguard.turn():
    for number in range(25):
        loopguard.call("search_orders", {"customer": f"ada{number}"}, lambda customer: f"one order of {customer}")
"""


def test_nudges_without_a_loop_are_in_the_sum(tmp_path: Path) -> None:
    """A program that works is told that its model was sent sentences."""
    assert last_line(tmp_path, CUSTOMERS) == "otel_loopguard: 25 tool calls, no loop, 2 nudges."


def test_a_guarded_program_without_calls_is_told(tmp_path: Path) -> None:
    """The line leads to the doctor. Without ``instrument()`` no call is expected, and nothing is printed."""
    line = last_line(tmp_path, GUARDED)
    assert line.startswith("otel_loopguard: on, but saw no tool call: nothing was guarded here.")
    assert "otel-loopguard doctor" in line
    assert last_line(tmp_path, GUARDED + "otel_loopguard.uninstrument()") == ""
    assert last_line(tmp_path, "import otel_loopguard") == ""


@pytest.mark.parametrize(("code", "lines"), [("import json", 0), ("import openai", 1)])
def test_only_a_program_with_an_agent_is_told_that_no_call_was_guarded(code: str, lines: int, tmp_path: Path) -> None:
    """Other programs that ``opentelemetry-instrument`` starts are as quiet as without it."""
    pytest.importorskip("openai")
    app = tmp_path / "app.py"
    app.write_text(code)
    assert len(start(app).stderr.splitlines()) == lines


@pytest.mark.parametrize("more", [{"SUMMARY": "off"}, {"ACTION": "off"}], ids=str)
def test_it_can_be_quiet(tmp_path: Path, more: dict[str, str]) -> None:
    """Nothing is printed where the line or the guard is switched off."""
    for code in (GUARDED, LOOP.format(calls=2)):
        assert last_line(tmp_path, code, **more) == ""


WORK = """
import logging, multiprocessing, os, sys
import otel_loopguard
logging.disable()
otel_loopguard.instrument()
def work(calls):
    with otel_loopguard.turn():
        for number in range(calls):
            otel_loopguard.call("look", {"path": number}, lambda path: path)
"""
FORKS = f"""{WORK}
for calls in (2, 0):
    child = os.fork()
    if not child:
        work(calls)
        sys.exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_each_worker_with_calls_has_its_own_line(tmp_path: Path) -> None:
    """Neither a worker without calls nor the parent, whose workers may have made them, complains."""
    (line,) = ended(tmp_path, FORKS).stderr.splitlines()
    assert line.startswith("otel_loopguard: 2 tool calls in process ")
    assert line.endswith(", no loop.")


SPAWNS = f"""{WORK}
if __name__ == "__main__":
    for calls in (2, 0):
        child = multiprocessing.get_context("spawn").Process(target=work, args=(calls,))
        child.start()
        child.join()
"""


def test_a_spawned_worker_names_its_process(tmp_path: Path) -> None:
    """Its line is not that of the whole program. Neither a worker without calls nor the parent complains."""
    (line,) = ended(tmp_path, SPAWNS).stderr.splitlines()
    assert line.startswith("otel_loopguard: 2 tool calls in process ")


@pytest.mark.parametrize(
    "code", ["sys.stderr.close()", "os.close(2)", "sys.stderr = None", "sys.stderr.write = None"], ids=str
)
def test_the_exit_does_not_depend_on_standard_error(tmp_path: Path, code: str) -> None:
    """The status of the program is its own where the stream is closed, missing or broken."""
    program = ended(tmp_path, f"{LOOP.format(calls=1)}\nimport os, sys\n{code}\nsys.exit(7)")
    assert (program.returncode, program.stdout) == (7, "")


@pytest.mark.skipif(os.name == "nt", reason="there is no poll on Windows")
def test_a_full_pipe_that_nobody_reads_does_not_hold_the_exit(tmp_path: Path) -> None:
    """The line is left out, and the program ends."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    app = tmp_path / "app.py"
    app.write_text(LOOP.format(calls=1))
    try:
        done = subprocess.run([sys.executable, app], env=clean_environment(), stderr=writer, timeout=60, check=False)
    finally:
        os.close(reader)
        os.close(writer)
    assert done.returncode == 0


def test_the_testing_kit_leaves_the_line_alone(tmp_path: Path) -> None:
    """A test run with ``guarded()`` has no line: its calls are those of tests."""
    code = "from otel_loopguard.testing import guarded\nwith guarded():\n    import otel_loopguard as loopguard\n"
    code += "    loopguard.call('look', {}, lambda: 1)\n"
    assert last_line(tmp_path, code) == ""


def test_sums_start_from_zero_in_a_child() -> None:
    """A line is about one process, or about nothing."""
    summary = ExitSummary()
    summary.calls = summary.loops = summary.nudges = 3
    summary.after_fork()
    assert summary.line() is None
