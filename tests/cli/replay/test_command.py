"""The command ``otel-loopguard replay``: what it reads, prints, and how it ends."""

from __future__ import annotations

import gzip
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from otel_loopguard.cli.main import main
from otel_loopguard.cli.replay import sources
from otel_loopguard.cli.replay.judge import TripOfRun, reached
from otel_loopguard.cli.replay.summary import Summary, ends_in_words, verdict
from otel_loopguard.engine.vocabulary import Action

from . import made

PLAIN = made.run("plain", [made.call("read_file", {"path": "b"}, "text", 1)], success=True)


def lines(*runs):
    return b"".join(json.dumps(run).encode() + b"\n" for run in runs)


def packed(data, how):
    if how == "gzip":
        return gzip.compress(data)
    if how == "zstd":
        return pytest.importorskip("zstandard").compress(data)
    return data


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(made.stuck(success=False), PLAIN))
    return str(path)


def replayed(capfdbinary, *arguments):
    status = main(["replay", *arguments])
    out, err = capfdbinary.readouterr()
    return status, out.decode(), err.decode()


@pytest.mark.parametrize("how", ["plain", "gzip", "zstd"])
def test_one_json_line_a_run_however_it_is_packed(tmp_path, capfdbinary, how):
    """Each run is one line with its trips, also a run without any."""
    path = tmp_path / "packed"
    path.write_bytes(packed(lines(made.stuck(), PLAIN), how))
    status, out, _ = replayed(capfdbinary, str(path), "--json")
    stuck, plain = map(json.loads, out.splitlines())
    assert status == 0
    assert plain == {"run_id": "plain", "trips": []}
    assert stuck["trips"][0] == {"turn": 0, "call": 1, "mode": "generic_repeat", "action": "nudge"}
    assert [trip["call"] for trip in stuck["trips"]] == [1, 2, 3]


def test_several_files_and_standard_input(file, capfdbinary, monkeypatch):
    """Files are read in their order; `-` is standard input, packed or not."""
    data = gzip.compress(lines(PLAIN))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
    _, out, _ = replayed(capfdbinary, file, "-", "--json")
    assert [json.loads(line)["run_id"] for line in out.splitlines()] == ["stuck", "plain", "plain"]


def test_broken_lines_are_reported_counted_and_skipped(tmp_path, capfdbinary):
    """A line that is no JSON, no run or malformed is reported with file and line; the others are replayed."""
    path = tmp_path / "broken.jsonl"
    broken = [
        b'{"run_id": \n',
        b"[]\n",
        b'{"x": 1}\n',
        b'{"turns": 3}\n',
        b'{"turns": [{"calls": [{"args": 1}]}]}\n',
        b"\xff\n",
    ]
    path.write_bytes(lines(PLAIN) + b"\n" + b"".join(broken) + lines(PLAIN)[:-30])
    status, out, err = replayed(capfdbinary, str(path), "--json")
    assert status == 3
    assert len(out.splitlines()) == 1
    assert [f"{path}:{number}:" in err for number in range(3, 10)] == [True] * 7
    assert "7 broken lines skipped" in err
    assert f"{path}:7: not of the right shape: 'tool' is missing; skipped" in err


def test_broken_lines_never_show_what_they_hold(tmp_path, capfdbinary):
    """A broken line may hold anything: it is named, not quoted."""
    path = tmp_path / "broken.jsonl"
    path.write_bytes(
        b'{"run_id": "SECRET"\n{"turns": "SECRET"}\n{"turns": [{"calls": [{"tool": 1, "args": "SECRET"}]}]}\n'
    )
    _, out, err = replayed(capfdbinary, str(path))
    assert "SECRET" not in out + err


def test_a_line_without_end_is_skipped(tmp_path, capfdbinary):
    """No line may fill the memory: one that is too long is skipped, the next one is read, and the remedy is named."""
    path = tmp_path / "long.jsonl"
    path.write_bytes(b'{"x": "' + b"y" * 5_000 + b'"}\n' + lines(PLAIN))
    status, out, err = replayed(capfdbinary, str(path), "--json", "--longest-line", "0.0005")
    assert (status, len(out.splitlines())) == (3, 1)
    assert "1: the line is longer than 0.00049" in err
    assert "--longest-line" in err
    status, out, err = replayed(capfdbinary, str(path), "--json")
    assert "1: neither a run" in err


def test_lines_that_are_blank_without_end_are_not_read(tmp_path, capfdbinary, monkeypatch):
    """A packed file of blank lines is left after a number of them, with a message; the next file is read."""
    monkeypatch.setattr(sources, "_MOST_BLANK", 1_000)
    (tmp_path / "blank.gz").write_bytes(gzip.compress(b"\n" * 3_000 + lines(PLAIN)))
    (tmp_path / "few.gz").write_bytes(gzip.compress((b"\n" * 900 + lines(PLAIN)) * 3))
    status, out, err = replayed(capfdbinary, str(tmp_path / "blank.gz"), str(tmp_path / "few.gz"), "--json")
    assert (status, len(out.splitlines())) == (3, 3)
    assert "over 1,000 blank lines in a row" in err


def test_a_packed_line_cannot_fill_the_memory(tmp_path):
    """A packed line of 60 MB, which takes 1.9 GB when it is parsed, costs a few tens of megabytes."""
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b'{"turns": [' + b"[]," * 20_000_000 + b"[]]}\n" + lines(PLAIN), 1))
    program = (
        "import re, sys; from otel_loopguard.cli.main import main; status = main(sys.argv[1:]); "
        # Not ru_maxrss: that is at least the memory of the process that started this one.
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "replay", str(path), "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "longer than 16 MB" in done.stderr
    assert int(done.stdout.splitlines()[-1]) < 300_000


@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_a_packed_file_that_ends_too_early(tmp_path, capfdbinary, how):
    """The readable part of a truncated archive is replayed, without a traceback."""
    path = tmp_path / "cut"
    data = packed(lines(*[made.drawn(seed) for seed in range(3_000)]), how)
    path.write_bytes(data[: len(data) // 2])
    status, out, err = replayed(capfdbinary, str(path), "--json")
    assert status == 3 or how == "zstd"
    assert out
    assert "Traceback" not in err


def test_a_missing_file_is_an_error_before_any_work(file, tmp_path, capfdbinary):
    """Nothing is replayed if one of the files is not there; all that are missing are named."""
    status, out, err = replayed(capfdbinary, file, str(tmp_path / "none"), str(tmp_path / "neither"), "--json")
    assert (status, out) == (2, "")
    assert "none: No such file" in err
    assert "neither: No such file" in err


@pytest.mark.parametrize(
    ("arguments", "status"),
    [([], 0), (["--fail-on", "block"], 1), (["--fail-on", "nudge"], 1), (["--fail-on", "abort"], 0)],
)
def test_exit_status(file, capfdbinary, arguments, status):
    """0 when all was read; 1 where a run met what --fail-on names, or worse."""
    assert replayed(capfdbinary, file, *arguments)[0] == status


def test_wrong_policies_are_errors_before_any_work(file, tmp_path, capfdbinary):
    """A wrong policy file names its mistakes, a wrong preset the right ones."""
    (tmp_path / "p.toml").write_text("abort_afer = 1\n")
    status, out, err = replayed(capfdbinary, file, "--policy", str(tmp_path / "p.toml"))
    assert (status, out) == (2, "")
    assert "did you mean abort_after?" in err
    assert "did you mean chat_turn?" in replayed(capfdbinary, file, "--preset", "chat_trun")[2]
    assert "neither a preset" in replayed(capfdbinary, file, "--compare", "nothing")[2]


def test_tables(file, capfdbinary):
    """Without --json: by mode, tool and action, what runs lost or were spared, loops, what is undecided."""
    _, out, _ = replayed(capfdbinary, file)
    assert "2 runs, 5 calls" in out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}
    assert rows["successful"] == ["1", "0", "0", "0", "0", "0", "0"]
    assert rows["failed"] == ["1", "1", "1", "0", "0", "2", "0"]
    assert rows["generic_repeat"] == ["1", "2"]
    assert rows["read_file"] == ["1", "2"]
    assert "  stuck, turn 1: read_file x4: 2 ran, 2 refused (2 of 4 would have been refused)\n" in out
    assert "unknown_tool_repeat: not judged in 2 runs without a list of the tools" in out
    assert "2 runs without times" in out


def test_a_name_cannot_command_the_terminal(tmp_path, capfdbinary):
    """Control characters in names of a file are not printed."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(made.stuck("\x1b[2J", times=3)))
    assert "\x1b" not in replayed(capfdbinary, str(path))[1]


def test_two_policies_side_by_side(file, capfdbinary):
    """--compare shows the trips of a second policy next to the first, in tables and in JSON."""
    _, out, _ = replayed(capfdbinary, file, "--compare", "repeat_hint")
    assert "refused (default)" in out
    assert "refused (repeat_hint)" in out
    _, out, _ = replayed(capfdbinary, file, "--compare", "repeat_hint", "--json")
    stuck = json.loads(out.splitlines()[0])
    assert [trip["call"] for trip in stuck["trips"]] == [1, 2, 3]
    assert [trip["call"] for trip in stuck["compared"]] == [3]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("how", [["--json"], []])
def test_a_full_disk_is_no_fault_of_the_input(file, how):
    """A failed write is reported for standard output, and not for the input file."""
    command = [sys.executable, "-m", "otel_loopguard.cli.main", "replay", str(file), *how]
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    assert ended.returncode == 2
    assert b"No space left" in ended.stderr
    assert str(file).encode() not in ended.stderr
    assert b"Traceback" not in ended.stderr
    assert b"Exception ignored" not in ended.stderr


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path, capfdbinary):
    """Files written by some editors begin with one."""
    path = tmp_path / "marked.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + lines(made.stuck(), PLAIN))
    assert main(["replay", "--json", str(path)]) == 0
    assert len(capfdbinary.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize("at", ["2024-05-01T10:00:00Z", [None], True, {}])
def test_a_time_of_the_wrong_kind_is_a_broken_line(tmp_path, capfdbinary, at):
    """A run with a malformed time is reported with file and line, and the rest is read."""
    run = made.stuck()
    for call in run["turns"][0]["calls"]:
        call["at"] = at
    path = tmp_path / "times.jsonl"
    path.write_bytes(lines(run, PLAIN))
    assert main(["replay", "--json", str(path)]) == 3
    said = capfdbinary.readouterr()
    assert b"times.jsonl:1: `at` must be a number of seconds" in said.err
    assert len(said.out.splitlines()) == 1


def test_a_report_with_a_time_of_the_wrong_kind_is_written(tmp_path, capfd):
    """A turn that cannot trip is not replayed. The report reads its times all the same, and leaves the run out."""
    path, report = tmp_path / "times.jsonl", tmp_path / "report.html"
    path.write_bytes(lines(made.run("odd", [made.call("look", {}, "seen", at="noon")]), PLAIN))
    assert main(["replay", str(path), "--html", str(report)]) == 3
    assert "times.jsonl:1: `at` must be a number of seconds; skipped" in capfd.readouterr().err
    assert report.exists()


def test_a_broken_pipe_is_no_traceback(tmp_path):
    """A reader that closes the pipe early causes no error message."""
    path = tmp_path / "many.jsonl"
    path.write_bytes(lines(*[made.stuck(f"run {n}") for n in range(5_000)]))
    command = [sys.executable, "-m", "otel_loopguard.cli.main", "replay", "--json", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.parametrize(
    "data", [b"", b'{"resourceSpans": []}\n', b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "chat"}]}]}]}\n']
)
def test_a_file_in_which_nothing_is_found_is_named(file, tmp_path, capfdbinary, data):
    """A file without a run or a tool span ends in status 3, and the message names the readable formats."""
    path = tmp_path / "empty.jsonl"
    path.write_bytes(data)
    status, out, err = replayed(capfdbinary, file, str(path), "--json")
    assert (status, len(out.splitlines())) == (3, 2)
    assert f"{path}: no run and no tool span was found" in err
    assert "OpenInference" in err
    assert "docs/replay.md" in err
    assert file not in err


def test_a_run_that_would_have_been_concluded_has_a_column_and_an_exit_status(tmp_path, capfdbinary):
    """Seven refusals: concluded, and not ended. ``--fail-on conclude`` is met, ``--fail-on abort`` is not."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(made.stuck(times=9)))
    _, out, _ = replayed(capfdbinary, str(path))
    head, _, row = out.splitlines()[2:5]
    assert head.split()[1:5] == ["nudged", "refused", "concluded", "aborted"]
    assert row.split()[2:6] == ["1", "1", "1", "0"]
    assert [replayed(capfdbinary, str(path), "--fail-on", action)[0] for action in ("conclude", "abort")] == [1, 0]


def test_a_file_that_is_no_recording_is_told_and_has_no_tables(tmp_path, capfdbinary):
    """Empty tables would read like a recording without any loop. A few lines are named, and no report is made."""
    path, page = tmp_path / "notes.txt", tmp_path / "report.html"
    path.write_text("no JSON at all\n" * 30)
    status, out, err = replayed(capfdbinary, str(path), "--html", str(page))
    assert (status, out) == (3, "")
    assert err.count("; skipped\n") == 3
    assert f"{path}: no run and no tool span was found." in err
    assert "30 broken lines skipped" in err
    assert not page.exists()


def test_a_loop_is_one_row_and_the_number_of_the_others_is_told(tmp_path, capfdbinary):
    """The row has two figures: what a guarded run does, and how many of its calls would have been refused."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(*(made.stuck(f"stuck-{number}", times=30) for number in range(12))))
    _, out, _ = replayed(capfdbinary, str(path))
    assert re.search(r"\ncalls by mode .*\n[- ]+\ngeneric_repeat ", out)
    assert out.count("read_file x30: 2 ran, 10 refused, run ended at 13 (28 of 30 would have been refused)\n") == 10
    assert "\n  ... and 2 more loops\n" in out
    assert rows_of(out)["generic_repeat"] == ["12", "108", "12", "12", "204"]  # nudge, block, conclude, abort, after


def test_a_poll_that_is_told_is_no_loop():
    """A run whose model would only be told something is counted apart, also if a later part of it loops."""
    told = TripOfRun(0, 3, "build", "poll_no_progress", Action.NUDGE, 4, is_loop=False)
    looping = TripOfRun(0, 9, "build", "generic_repeat", Action.BLOCK, 3)
    summary = Summary("default")
    summary.add(None, [told])
    assert (summary.looping, summary.told) == (0, 1)
    assert verdict(summary, 1, 15) == "No loop in 15 calls of 1 turn. 1 turn told, not stopped."
    summary.add(None, [looping], reached([told], frozenset()))
    assert (summary.looping, summary.told) == (1, 0)


def test_a_run_that_is_asked_for_its_answer_is_not_ended_too():
    """What the recording has after the withdrawal of the tools is made by no guarded run."""
    asked = TripOfRun(0, 9, "look", "generic_repeat", Action.CONCLUDE, 9, has_run=True)
    after = asked._replace(call=10, action=Action.ABORT, is_after=True)
    summary = Summary("default")
    summary.add(None, [asked, after])
    assert (summary.concluded[None], summary.aborted[None], summary.spared[None]) == (1, 0, 1)


def test_a_turn_that_was_broken_off_is_left_without_an_answer():
    """The program may have reached its own limit: nobody cancelled anything."""
    assert ends_in_words(["cancelled", "answered", "cancelled"]) == [
        "3 turns ended: 1 answered, 2 left without an answer"
    ]


def rows_of(out):
    """The words of each line after the first, by the first."""
    return {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}


def test_one_of_a_kind_is_singular(tmp_path, capfdbinary):
    """Numbers and their nouns and verbs agree."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines(made.stuck("stuck", times=2)) + b"{\n")
    _, out, err = replayed(capfdbinary, str(path))
    assert "  - 1 run without times: " in out
    assert "not judged in 1 run without a list of the tools" in out
    assert "1 broken line skipped" in err
