"""``otel-loopguard watch``: programs that loop, run to their end without a collector."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.cli.processes import COMMAND, command, environment
from tests.report.test_file import data_of

LOOP = """
import os, sys
import otel_loopguard as loopguard

def loop(calls):
    with loopguard.turn():
        for _ in range(calls):
            loopguard.call("look", {"path": "SECRET"}, lambda path: "text")
"""


def watched(tmp_path, text, *options, more=None):
    """The process of a watch over this program, which writes its report and its recording next to it."""
    app = tmp_path / "app.py"
    app.write_text(LOOP + text)
    files = ("-o", str(tmp_path / "report.html"), "--record", str(tmp_path / "spans.jsonl"))
    return command("watch", *files, *options, "--", sys.executable, str(app), more=more)


def outcomes(tmp_path):
    """The outcome of each recorded call, in order."""
    lines = (tmp_path / "spans.jsonl").read_text().splitlines()
    spans = [json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for line in lines]
    attributes = [{one["key"]: one["value"] for one in span["attributes"]} for span in spans]
    return [each["loopguard.outcome"]["stringValue"] for each in attributes if "loopguard.outcome" in each]


@pytest.mark.parametrize("action", ["block", "observe"])
def test_a_loop_runs_to_its_end_and_is_reported(tmp_path, action):
    """Nothing is refused whatever the policy is; the report has the refusals that it would have made."""
    done = watched(tmp_path, "loop(6)\nprint('done')\nsys.exit(3)", more={"OTEL_PYTHON_LOOPGUARD_ACTION": action})
    assert (done.returncode, done.stdout) == (3, "done\n")
    assert outcomes(tmp_path) == ["executed"] * 6
    assert "6 calls" in done.stderr
    assert "generic_repeat      1      4" in done.stderr  # nudge, block
    page = (tmp_path / "report.html").read_text()
    assert "every call ran; this is what the guard would have done" in page
    assert "generic_repeat" in page
    assert "SECRET" not in page + done.stderr + (tmp_path / "spans.jsonl").read_text()


def test_the_summary_begins_with_a_verdict(tmp_path):
    """Two sentences with figures, how the turns ended, then a row for each loop; no column or line is about nothing."""
    looping = watched(tmp_path, "loop(6)").stderr
    lines = [line for line in looping.splitlines() if line and not line.startswith("otel_loopguard:")]
    assert lines[:3] == [
        "1 of 1 turn looped: 4 of 6 calls would have been refused.",
        "Guarded: 2 ran, 4 refused.",
        "1 turn ended: 1 answered",
    ]
    row = "look x6: 2 ran, 4 refused (4 of 6 would have been refused)"
    assert row in looping
    assert f"otel-loopguard: the report: {(tmp_path / 'report.html').as_uri()}\n" in looping
    data = data_of(tmp_path / "report.html")
    assert (data["lead"].splitlines(), [one[2] for one in data["loops"]["rows"]]) == (lines[:2], [row])
    for word in ("unlabelled", "spared", "not decided", "enforced"):
        assert word not in looping
    quiet = watched(tmp_path, "loop(1)").stderr
    assert quiet.startswith("No loop in 1 call of 1 turn.\n")
    assert "no trip" not in quiet


def test_it_judges_by_the_policy_that_is_given(tmp_path):
    """Every call runs; what would have been done is what this file says. One that does not exist is refused."""
    policy = tmp_path / "mine.toml"
    policy.write_text("[modes.generic_repeat]\nnudge = 0\nblock = 5\n")
    done = watched(tmp_path, "loop(6)", "--policy", str(policy))
    assert "2 of 6 calls would have been refused" in done.stderr
    assert outcomes(tmp_path) == ["executed"] * 6
    assert "mine.toml" in done.stderr + (tmp_path / "report.html").read_text()
    assert watched(tmp_path, "loop(6)", "--policy", "no.toml").returncode == 2


def test_the_recording_can_be_replayed(tmp_path):
    """``replay`` judges it as the watch did, also under another policy."""
    watched(tmp_path, "loop(6)")
    replayed = command("replay", "--json", str(tmp_path / "spans.jsonl"))
    (run,) = [json.loads(line) for line in replayed.stdout.splitlines()]
    assert [trip["action"] for trip in run["trips"]] == ["nudge", *["block"] * 4]
    assert run["end"] == "answered"
    assert "1 turn ended: 1 answered\n" in command("replay", str(tmp_path / "spans.jsonl")).stdout


def test_ids_are_those_of_otlp(tmp_path):
    """Other readers of OTLP JSON know the file: ids are hexadecimal, kinds are numbers."""
    watched(tmp_path, "loop(1)")
    call, turn = (
        json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        for line in (tmp_path / "spans.jsonl").read_text().splitlines()
    )
    assert (len(bytes.fromhex(call["traceId"])), len(bytes.fromhex(call["spanId"])), call["kind"]) == (16, 8, 1)
    assert call["parentSpanId"] == turn["spanId"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_all_processes_are_in_one_report_and_one_that_is_killed_too(tmp_path):
    """The calls of a worker are there up to the one during which it was killed."""
    text = "child = os.fork()\nif not child:\n    loop(4)\n    os.kill(os.getpid(), 9)\nos.waitpid(child, 0)\nloop(5)"
    done = watched(tmp_path, text)
    assert done.returncode == 0
    assert len(outcomes(tmp_path)) == 9
    assert "9 calls" in done.stderr


def test_a_program_that_a_signal_ends_has_its_report(tmp_path):
    """The status is that of a shell, 128 and the number of the signal."""
    done = watched(tmp_path, "loop(4)\nos.kill(os.getpid(), 9)")
    assert done.returncode == 128 + signal.SIGKILL
    assert "4 calls" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="there are no process groups on Windows")
def test_ctrl_c_ends_the_program_and_not_the_watch(tmp_path):
    """It reaches both, as in a terminal; the program's end is its own, and then comes the report."""
    app = tmp_path / "app.py"
    app.write_text(LOOP + "import time\nloop(4)\nprint('ready', flush=True)\ntime.sleep(60)")
    watch = [*COMMAND, "watch", "-o", str(tmp_path / "report.html"), "--", sys.executable, str(app)]
    with subprocess.Popen(
        watch, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode in (1, 128 + signal.SIGINT)
    assert "KeyboardInterrupt" in errors
    assert "4 calls" in errors
    assert (tmp_path / "report.html").exists()


def test_a_provider_of_the_program_is_recorded_as_well(tmp_path):
    """The guard may write to a provider that is not the global one."""
    text = (
        "from opentelemetry.sdk.trace import TracerProvider\nloopguard.instrument(tracer_provider=TracerProvider())\n"
    )
    done = watched(tmp_path, text + "loop(4)", more={"OTEL_PYTHON_TRACER_PROVIDER": "default_tracer_provider"})
    assert outcomes(tmp_path) == ["executed"] * 4, done.stderr


def test_a_program_without_calls_has_no_report(tmp_path):
    """The doctor is named instead. A report that was there before stays as it is."""
    (tmp_path / "earlier.html").write_text("earlier")
    command("watch", "-o", str(tmp_path / "earlier.html"), "--", sys.executable, "-c", "1")
    assert (tmp_path / "earlier.html").read_text() == "earlier"
    done = watched(tmp_path, "print('none')")
    assert (done.returncode, done.stdout) == (0, "none\n")
    assert "otel-loopguard: the program made no tool call that the guard saw, so there is no report." in done.stderr
    assert "otel-loopguard doctor" in done.stderr
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("option", ["-o", "--record"])
def test_a_file_that_cannot_be_written_is_one_line(option, tmp_path):
    """The program runs all the same, and the report is where it would be without the option."""
    (tmp_path / "app.py").write_text(LOOP + "loop(6)\nsys.exit(3)")
    done = command("watch", option, "/no/such/folder/file", "app.py", cwd=tmp_path)
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if "/no/such/folder/file" in line]
    assert "No such file" in line
    assert "1 of 1 turn looped" in done.stderr
    assert (tmp_path / "loopguard-watch.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the program"),
        (("--",), "name the program"),
        (("-m",), "name the module"),
        (("--", "no-such-command"), "no-such-command: there is no such program"),
        (("app.py",), "app.py: there is no such file"),
        (("--window", "9", "--turns", "trace", "app.py"), "--window, --turns: only for `watch --otlp`"),
    ],
)
def test_wrong_use_is_a_line(tmp_path, arguments, message):
    """The status is 2, the program does not start, and no empty report is left."""
    done = command("watch", "-o", str(tmp_path / "report.html"), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "report.html").exists()
