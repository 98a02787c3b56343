"""Recordings of programs that loop, made by ``otel-loopguard watch``, and the commands that tests run on them."""

from __future__ import annotations

import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING, Any

from otel_loopguard import Policy
from otel_loopguard.cli.main import main
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.replay.recorded_runs import judged_turns, read
from tests.cli.processes import command, environment
from tests.cli.replay.made import run

if TYPE_CHECKING:
    from pathlib import Path

    from otel_loopguard.cli.replay.recorded_turn import JudgedCall

LOOPS = """
import otel_loopguard as loopguard

def fail(x):
    raise ValueError("SECRET: no such customer")

TOOLS = {
    "look": lambda x: "SECRET text " * 20,
    "status": lambda x: "SECRET job is pending",
    "save": lambda x: "saved",
    "find": lambda x: f"no results for {x}",
    "broken": fail,
}

@loopguard.tool(kind="poll")
def forward(x):
    return "SECRET done " * 30

def play(*calls):
    with loopguard.turn():
        for name, number in calls:
            try:
                loopguard.call(name, {"x": f"SECRET {number}"}, TOOLS.get(name), known_tools=TOOLS)
            except ValueError:
                pass

play(*[("look", 1)] * 6)
play(*[("look", 2)] * 3)
play(*[("status", 1)] * 22)
play(*[("look", 1), ("find", 2)] * 3)
play(("look", 3), ("made_up", 1), ("made_up", 1), ("made_up", 1))
play(*[("broken", number) for number in range(12)])
play(*[("save", 1)] * 5)
play(*[("find", number) for number in range(10)])
with loopguard.turn():
    for _ in range(20):
        forward("SECRET")
"""
TESTS = {
    "test_look_generic_repeat", "test_status_poll_no_progress", "test_look_ping_pong", "test_broken_error_repeat",
    "test_save_generic_repeat", "test_forward_poll_no_progress",
}  # fmt: skip
"""The tests of these loops, besides that of the unknown tool, whose name has a hash."""


def record(folder: Path, program: str) -> Path:
    """Run the program under ``watch``, and return its recording."""
    (folder / "app.py").write_text(program)
    recording = folder / "runs.jsonl"
    files = ("-o", str(folder / "report.html"), "--record", str(recording))
    assert command("watch", *files, "--", sys.executable, str(folder / "app.py")).returncode == 0
    return recording


def written_from(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command in this process."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(["test-from", *map(str, arguments)])
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def run_tests(file: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on a file of tests, without plugins."""
    environ = environment({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **more})
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    return subprocess.run(words, cwd=file.parent, env=environ, capture_output=True, text=True, timeout=120, check=False)


def judged(*calls: dict[str, Any], policy: Policy | None = None, **more: Any) -> list[JudgedCall]:
    """The calls of one recorded turn, judged by a policy."""
    judge = PolicyJudge(policy or Policy())
    ((_, found),) = judged_turns(read(run("made", list(calls), **more)), judge)
    return found
