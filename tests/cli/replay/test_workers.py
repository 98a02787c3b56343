"""Several processes: the same output as one, and how they end."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from otel_loopguard.cli.main import main
from otel_loopguard.cli.replay import input_reader
from otel_loopguard.cli.replay.input_reader import SMALL
from otel_loopguard.cli.replay.line_judge import LineJudge
from otel_loopguard.cli.replay.sources import Line
from otel_loopguard.cli.replay.workers import Workers
from tests.cli.processes import COMMAND, command, environment

from . import made

BROKEN = (
    b"{",
    b"[]",
    b'{"turns": [{"calls": [{"args": 1}]}]}',
    b'{"turns": 3}',
    b'{"resourceSpans": [{"scopeSpans": 1}]}',
)
IN_TWO = ("replay", "-", "--json", "--jobs", "2")
_WRITTEN = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d UTC")
"""The minute in which a report was written."""
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


def span(trace: int, number: int) -> dict:
    """A line with one call of a tool, as a collector writes it. The keys are in the usual order in every other one."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.arguments": "{}",
        "gen_ai.tool.call.result": "none",
    }
    found = {
        "traceId": f"{trace:032x}",
        "spanId": f"{number:016x}",
        "name": "execute_tool search",
        "startTimeUnixNano": str(number * 10**9),
        "endTimeUnixNano": str(number * 10**9 + 1),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
    line = {"resourceSpans": [{"scopeSpans": [{"spans": [found]}]}]}
    return line if number % 2 else {"version": 1, **line}


def lines(size: int, *others: bytes) -> bytes:
    """Runs of this size, and now and then another line."""
    drawn = [json.dumps({**made.drawn(seed), "note": "x" * 40_000}).encode() for seed in range(200)]
    found: list[bytes] = []
    while size > 0:
        found.append(drawn[len(found) % len(drawn)])
        size -= len(found[-1])
        if others and not len(found) % 3:
            found.append(others[len(found) // 3 % len(others)])
    return b"\n".join(found) + b"\n"


@pytest.fixture(scope="module", name="large")
def _large(tmp_path_factory):
    """More runs than one process judges alone, and between them broken lines, and the spans of three traces."""
    spans = [json.dumps(span(number % 3, number)).encode() for number in range(100)]
    path = tmp_path_factory.mktemp("large") / "runs.jsonl"
    path.write_bytes(lines(SMALL + (5 << 20), *BROKEN, b" ", *spans))
    return str(path)


@pytest.mark.parametrize("more", [(), ("--json", "--compare", "chat_turn"), ("--html", "report.html")])
def test_several_processes_print_what_one_prints(large, tmp_path, monkeypatch, more):
    """The output, the report and the broken lines are the same byte for byte, in the order of the input."""
    monkeypatch.chdir(tmp_path)
    packed = tmp_path / "cut off.gz"
    packed.write_bytes(gzip.compress(Path(large).read_bytes())[:-100])
    found = []
    for jobs in ("1", "3"):
        key = {"OTEL_PYTHON_LOOPGUARD_HASH_KEY": "a key that both runs of the command have"}
        ended = command("replay", large, str(packed), large, "--jobs", jobs, *more, more=key)
        report = Path("report.html")
        page = _WRITTEN.sub(b"", report.read_bytes()) if report.exists() else b""
        found.append((ended.returncode, ended.stdout, ended.stderr, page))
    assert found[0][0] == 3
    assert found[0][2].count("skipped\n") > 20
    assert found[0] == found[1]


def test_calibration_in_several_processes_writes_the_same_policy(large, tmp_path):
    """The policy and the reports are those of one process."""
    found = [command("calibrate", large, "--jobs", jobs) for jobs in ("1", "3")]
    assert "Good runs" in found[0].stdout
    assert (found[0].stdout, found[0].stderr) == (found[1].stdout, found[1].stderr)


def test_standard_input_is_judged_in_several_processes(large):
    """It is read by one process, and is the same as the file."""
    of_file = command("replay", large, "--json", "--jobs", "1")
    with Path(large).open("rb") as file:
        ended = subprocess.run([*COMMAND, *IN_TWO], stdin=file, env=environment(), capture_output=True, check=False)
    assert ended.stdout.decode() == of_file.stdout


def started(*, group: bool = False) -> subprocess.Popen[bytes]:
    """Start a replay of standard input."""
    return subprocess.Popen(
        [*COMMAND, *IN_TWO], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=environment(), start_new_session=group,
    )  # fmt: skip


def children(process: int) -> list[int]:
    """The processes that this one has started, that run."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in found]


def wait_for(condition) -> None:
    """Wait until a condition is true, for a minute at most."""
    for _ in range(6_000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it has waited for a minute")


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Give the command more runs than one process judges. Return its two processes."""
    process.stdin.write(lines(SMALL + (4 << 20)))
    process.stdin.flush()
    wait_for(lambda: len(children(process.pid)) == 2)
    return children(process.pid)


@on_linux
def test_a_small_input_starts_no_process():
    """The processes start only once there are more runs than one process judges in no time."""
    with started() as process:
        process.stdin.write(lines(SMALL - (1 << 20)))
        process.stdin.flush()  # now all is read, but for what a pipe holds
        assert children(process.pid) == []
        process.stdin.write(lines(4 << 20))
        process.stdin.flush()
        wait_for(lambda: len(children(process.pid)) == 2)
        process.stdin.close()
        assert process.wait(60) == 0


def test_spans_behind_runs_are_not_read_far_ahead():
    """No process judges them, and they wait for the runs before them: they count as what they hold."""
    read = []

    def items():
        for number in range(10_000):
            read.append(number)
            yield Line("file", number, b'{"resourceSpans": []}' + b" " * 100_000)

    with Workers(LineJudge([]), 2) as workers:
        next(workers.judged(items()))
    assert len(read) < 100  # ten megabytes


def test_without_other_processes_one_judges_all(tmp_path, monkeypatch, capfd):
    """A container may have no room for more, and --jobs has a default."""

    def refuse(_):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(input_reader, "SMALL", 0)
    monkeypatch.setattr(BaseProcess, "start", refuse)
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(100_000))
    found = []
    for jobs in ("1", "2"):
        assert main(["replay", str(path), "--json", "--jobs", jobs]) == 0
        found.append(capfd.readouterr())
    assert found[0].out == found[1].out
    assert "one process judges all runs: no other process can be started (" in found[1].err


@pytest.mark.parametrize("number", ["0", "-1", "two"])
def test_a_wrong_number_of_processes_is_named(number, capfd):
    """With the rule."""
    with pytest.raises(SystemExit):
        main(["replay", "runs.jsonl", f"--jobs={number}"])
    assert f"argument --jobs: {number} is no number of processes: it must be 1 or more" in capfd.readouterr().err


@on_linux
def test_a_worker_that_is_killed_is_reported():
    """The message names the signal and the lines, the status is not zero, and no process is left."""
    with started() as process:
        workers = workers_of(process)
        os.kill(workers[0], signal.SIGKILL)
        _, err = process.communicate(lines(8 << 20), timeout=60)
    assert process.returncode == 2
    assert b"a worker process was ended by SIGKILL while it judged standard input:" in err
    assert b"Traceback" not in err
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


@on_linux
@pytest.mark.parametrize("to", ["the group, as a terminal does", "the command alone"])
def test_ctrl_c_ends_all_processes(to):
    """The status is that of a shell, without a traceback, and no process is left."""
    with started(group=True) as process:
        workers = workers_of(process)
        (os.kill if to == "the command alone" else os.killpg)(process.pid, signal.SIGINT)
        err = process.stderr.read()
        assert process.wait(60) == 130
    assert err == b""
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


@on_linux
def test_workers_end_with_the_command():
    """Also if it is killed, so that it can end nothing itself."""
    with started() as process:
        workers = workers_of(process)
        process.kill()
    wait_for(lambda: not any(_runs(worker) for worker in workers))


def _runs(process: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


PROGRAM = """
import sys, threading
from otel_loopguard.cli.replay.replay import Replay
from otel_loopguard.cli.replay.sources import Reader
from otel_loopguard.engine.policy.policy import Policy

if __name__ == "__main__":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    policy = Policy(hash_key=b"one", on_trip=(lambda trip: None) if "function" in sys.argv else None)
    replay = Replay([("made", policy)], json=True, jobs=int(sys.argv[1]))
    replay.files([Reader(sys.argv[2])])
"""


def test_a_program_with_threads_starts_new_interpreters(large, tmp_path):
    """A copy of such a process might wait for a lock for ever. A policy with a function stays in one process."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    one, two, function = (
        subprocess.run([sys.executable, program, *arguments], env=environment(), capture_output=True, check=True)
        for arguments in (("1", large), ("2", large), ("2", large, "function"))
    )
    assert one.stdout == two.stdout == function.stdout
    assert one.stderr == two.stderr
    assert b"one process judges all runs: the policy cannot be sent to another process" in function.stderr
