"""``otel-loopguard test-from``: recordings of real programs become tests, which pytest runs."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from otel_loopguard import Policy
from otel_loopguard.testing import ScriptedAgent, guarded
from tests.cli.processes import COMMAND, environment
from tests.cli.replay.made import stuck

from .recordings import LOOPS, TESTS, record, run_tests, written_from

CORPORA = Path(__file__).resolve().parents[4] / "shared" / "corpora"


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A recording of loops in most modes."""
    return record(tmp_path_factory.mktemp("recorded"), LOOPS)


@pytest.fixture(scope="module")
def written(recording, tmp_path_factory):
    """What the command prints about the recording, and the file that it writes."""
    file = tmp_path_factory.mktemp("written") / "test_loops.py"
    done = written_from(recording, "-o", file)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, file


def test_each_loop_that_is_stopped_is_a_test_which_passes(written):
    """Equal loops have one test, named by tool and mode; pytest runs the file as it is."""
    _, file = written
    names = re.findall(r"def (\w+)", file.read_text())
    assert {name for name in names if "unknown" not in name} == TESTS
    assert len(names) == len(TESTS) + 1
    done = run_tests(file)
    assert (done.returncode, f"{len(names)} passed" in done.stdout) == (0, True), done.stdout


def test_no_value_of_the_recorded_program_is_written(written):
    """Letters stand for arguments, and made-up words for results."""
    printed, file = written
    assert "SECRET" not in printed + file.read_text()
    assert 'ScriptedCall("look", "a", "text A")] * 3' in file.read_text()


def test_the_other_loops_are_listed_with_the_reason(written):
    """One line for each tool, mode and reason."""
    printed, _ = written
    assert re.search(r"  test_look_generic_repeat: turn \S+, call 3, and 1 equal\n", printed)
    assert re.search(
        r"Without a test:\n(?:  .*\n)*  global_circuit_breaker of broken: told, not stopped \(turn", printed
    )


def test_policy_lines_are_printed_that_stop_the_loops_earlier(written, recording, tmp_path):
    """The lines are a policy: under it the same recording gives tests with fewer calls."""
    printed, _ = written
    lines = printed.partition("no other run of the recording:\n")[2]
    assert "[tools.status.modes.poll_no_progress]\nblock = 5  # test_status_poll_no_progress: call 5, not 20\n" in lines
    policy, file = tmp_path / "policy.toml", tmp_path / "test_loops.py"
    policy.write_text(lines)
    assert written_from(recording, "-o", file, "--policy", policy).returncode == 0
    assert 'ScriptedCall("status", "a", "pending A")] * 5' in file.read_text()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('action = "observe"\n', 'all 3 calls run, because the policy has action = "observe".'),
        ("modes.generic_repeat = { nudge = 0, block = 0 }\n", "no mode of the policy finds a loop"),
    ],
    ids=["observe", "mode off"],
)
def test_the_tests_fail_under_a_policy_that_stops_the_loops_no_more(recording, tmp_path, text, reason):
    """The policy file that the tests were written for has changed since: they say why the loop is not stopped."""
    policy, file = tmp_path / "policy.toml", tmp_path / "tests" / "test_loops.py"
    file.parent.mkdir()
    policy.write_text("")
    assert written_from(recording, "-o", file, "--policy", policy).returncode == 0
    assert 'POLICY = Path(__file__).parent / "../policy.toml"' in file.read_text()
    policy.write_text(text)
    done = run_tests(file)
    assert done.returncode == 1
    assert reason in done.stdout


def test_the_preset_is_in_the_test(recording, tmp_path):
    """A preset that stops fewer loops gives fewer tests, which name it."""
    file = tmp_path / "test_loops.py"
    assert written_from(recording, "-o", file, "--preset", "repeat_abort").returncode == 0
    assert 'assert_stopped(script, "repeat_abort")' in file.read_text()
    assert run_tests(file).returncode == 0


def test_most_bounds_the_number_of_tests(recording, tmp_path):
    """The others are listed."""
    done = written_from(recording, "-o", tmp_path / "test_loops.py", "--most", "1")
    assert "test_loops.py: 1 test of 9 runs\n" in done.stdout
    assert "  poll_no_progress of status: --most leaves it out\n" in done.stdout


def test_a_file_is_overwritten_with_force_only(tmp_path):
    """Tests that somebody may have changed stay as they are."""
    runs, file = tmp_path / "runs.jsonl", tmp_path / "test_loops.py"
    runs.write_text(json.dumps(stuck()))
    file.write_text("mine")
    done = written_from(runs, "-o", file)
    assert (done.returncode, file.read_text()) == (2, "mine")
    assert done.stderr == f"otel-loopguard: {file} exists; --force overwrites it\n"
    assert written_from(runs, "-o", file, "--force").returncode == 0
    assert "def test_read_file_generic_repeat" in file.read_text()


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("{", 3, "runs.jsonl:1: no JSON"),
        (json.dumps(stuck()) + "\n" + json.dumps(stuck())[:-9], 3, "is not written: the recording is broken"),
        ("", 3, "no run and no tool span was found"),
        (json.dumps(stuck(times=1)), 1, "is not written: no loop of 1 run can be a test"),
        (json.dumps(stuck(times=2)), 1, "  generic_repeat of read_file: told, not stopped (run stuck, turn 1, call 2)"),
    ],
    ids=["no recording", "cut off", "empty", "no loop", "only told"],
)
def test_nothing_is_written_from_a_recording_without_a_loop_or_that_is_broken(tmp_path, text, status, message):
    """The command says why."""
    runs, file = tmp_path / "runs.jsonl", tmp_path / "test_loops.py"
    runs.write_text(text)
    done = written_from(runs, "-o", file)
    assert (done.returncode, done.stdout, file.exists()) == (status, "", False)
    assert message in done.stderr


def test_a_policy_that_stops_nothing_is_wrong_use(tmp_path):
    """No test could pass under it."""
    runs, policy = tmp_path / "runs.jsonl", tmp_path / "policy.toml"
    runs.write_text(json.dumps(stuck()))
    policy.write_text('action = "nudge"\n')
    done = written_from(runs, "-o", tmp_path / "test_loops.py", "--policy", policy)
    assert done.returncode == 2
    assert 'the policy has action = "nudge", so it stops no loop' in done.stderr


def test_the_loop_of_a_guarded_run_is_a_test(tmp_path):
    """A refused call has no result in the recording: in the test it would have had that of the run before."""
    runs, file = tmp_path / "runs.jsonl", tmp_path / "test_loops.py"
    with guarded(Policy()) as recorded:
        ScriptedAgent({"read_file": lambda path: f"text of {path}"}, [("read_file", {"path": "a"})] * 6).run()
    runs.write_text(json.dumps(MessageToDict(encode_spans(recorded.spans))))
    assert written_from(runs, "-o", file).returncode == 0
    assert 'script = [ScriptedCall("read_file", "a", "text A")] * 3' in file.read_text()


def test_standard_input_is_read(tmp_path):
    """The recording is read twice, also from a pipe."""
    file = tmp_path / "test_loops.py"
    words = [*COMMAND, "test-from", "-", "-o", str(file)]
    done = subprocess.run(
        words, input=json.dumps(stuck()), env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "[tools.read_file.modes.generic_repeat]\nblock = 2" in done.stdout


@pytest.mark.skipif(not CORPORA.is_dir(), reason="the recordings of real agents are not in the repository")
def test_the_loops_of_real_agents_become_tests(tmp_path):
    """Most of them are equal: three tests hold the twenty stopped loops of 440 runs."""
    file = tmp_path / "test_loops.py"
    done = written_from(CORPORA / "hotpot.jsonl.gz", "-o", file)
    assert "test_loops.py: 3 tests of 440 runs\n  test_search_generic_repeat: " in done.stdout
    assert ", and 17 equal\n" in done.stdout
    assert "A lower tools.Search.modes.generic_repeat.block would stop 28 other runs" in done.stdout
    assert run_tests(file).returncode == 0
