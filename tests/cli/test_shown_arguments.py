"""``--show-arguments``: on a terminal the calls of loops have their arguments, and nothing else ever has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from otel_loopguard.cli.shown_arguments import shown_arguments
from otel_loopguard.errors import LoopGuardError
from tests.canary import CANARY, found_in, texts
from tests.cli.processes import command, in_terminal
from tests.report.test_file import data_of

LOOP = f"""
import os, sys, time
import otel_loopguard as loopguard

def loop(tool="look", calls=6):
    with loopguard.turn():
        for number in range(calls):
            loopguard.call(tool, {{"path": {CANARY!r}}}, lambda path: "text", call_id=f"call_{{number}}")
"""
SHOWN = json.dumps(CANARY, ensure_ascii=False)


def app_of(tmp_path, text):
    app = tmp_path / "app.py"
    app.write_text(LOOP + text)
    return [sys.executable, str(app)]


def watched(tmp_path, text, *options, more=None, name="watch"):
    """The standard error of a command in a terminal, with its report and its recording in the folder."""
    files = ("-o", str(tmp_path / "report.html"), "--record", str(tmp_path / "spans.jsonl"))
    return in_terminal(name, *files, *options, "--", *app_of(tmp_path, text), more=more, errors=True)


def test_a_terminal_shows_the_calls_of_a_loop(tmp_path):
    """Equal calls are one line, with their number; a second loop has its own."""
    shown = watched(tmp_path, "loop()\nloop('list_files', 4)", "--show-arguments")
    assert f"  4 x look(path={SHOWN}): generic_repeat, block" in shown
    assert f"  2 x list_files(path={SHOWN}): generic_repeat, block" in shown


def test_a_run_shows_what_it_refused(tmp_path):
    """The calls of a guarded program are shown as those of a watched one."""
    assert f"  4 x look(path={SHOWN}): generic_repeat, block" in watched(
        tmp_path, "loop()", "--show-arguments", name="run"
    )


def test_without_the_option_no_argument_is_shown(tmp_path):
    """A terminal alone is no wish to see them."""
    assert "canary" not in watched(tmp_path, "loop()")


def test_calls_of_forked_processes_are_shown(tmp_path):
    """They share the pipe of the program."""
    shown = watched(tmp_path, "os.fork() or (loop(), os._exit(0))\nos.wait()\nloop()", "--show-arguments")
    assert f"  8 x look(path={SHOWN}): generic_repeat, block" in shown


def test_a_process_that_goes_on_is_not_waited_for(tmp_path):
    """It has the pipe open when the program has ended; what was written before is shown."""
    shown = watched(tmp_path, "loop()\nif not os.fork(): os.close(1), os.close(2), time.sleep(300)", "--show-arguments")
    assert f"  4 x look(path={SHOWN}): generic_repeat, block" in shown


def test_a_program_that_closes_all_files_is_not_disturbed(tmp_path):
    """A daemon does: its calls are not shown, and its own files have nothing of ours."""
    own = tmp_path / "own"
    text = f"os.closerange(3, 200)\nfiles = [open({str(own)!r}, 'w') for _ in range(50)]\nloop()"
    assert "the calls of loops, with" not in watched(tmp_path, text, "--show-arguments")
    assert own.read_text() == ""


def test_a_redirected_standard_error_is_refused(tmp_path):
    """A file with the output of the command would have the arguments. The program is not started."""
    app = app_of(tmp_path, f"open({str(tmp_path / 'started')!r}, 'w')\nloop()")
    done = command("watch", "--show-arguments", "--", *app)
    assert done.returncode == 2
    assert "standard error is none here. Leave the option out" in done.stderr
    assert not (tmp_path / "started").exists()


def test_a_closed_standard_error_is_refused(monkeypatch):
    """It is no terminal, either."""
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(LoopGuardError, match="on a terminal only"), shown_arguments(wanted=True):
        pass


@pytest.mark.parametrize("name", ["watch", "run"])
def test_the_report_has_the_list_of_calls(name, tmp_path):
    """The same calls as the terminal. Only its owner may read it then, also if it was there; it says what it holds."""
    (tmp_path / "report.html").touch(0o644)
    watched(tmp_path, "loop()\nloop('list_files', 4)", "--show-arguments", name=name)
    report = tmp_path / "report.html"
    assert [call for call in data_of(report)["shown"] if call[3] != "nudge"] == [
        [4, "look", "generic_repeat", "block", f"path={SHOWN}", ""],
        [2, "list_files", "generic_repeat", "block", f"path={SHOWN}", ""],
    ]
    assert report.stat().st_mode & 0o777 == 0o600
    assert "By choice it holds arguments" in report.read_text("utf-8")


@pytest.mark.parametrize("name", ["watch", "run"])
def test_nothing_else_has_an_argument_while_it_is_shown(name, tmp_path):
    """In no encoding; the terminal and the report have it in the list of calls only, and the recording not at all."""
    shown = watched(tmp_path, "loop(calls=12)", "--show-arguments", name=name)
    files = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir() if path.name != "app.py"}
    assert files.keys() == {"report.html", "spans.jsonl"}
    before, _, listed = shown.partition("the calls of loops, with")
    data = data_of(tmp_path / "report.html")
    in_report = texts(data.pop("shown"))
    assert found_in(listed) == found_in(*in_report) == found_in(SHOWN) != []  # so it is found where it is
    assert found_in(before) == []
    assert found_in(files["report.html"].partition('id="data">')[0], *texts(data)) == []
    recorded = [text for line in files["spans.jsonl"].splitlines() for text in texts(json.loads(line))]
    assert "look" in recorded
    assert found_in(*recorded) == []


def test_a_report_without_the_option_has_no_argument(tmp_path):
    """Neither in the list of calls nor elsewhere, in any encoding, and it says so."""
    watched(tmp_path, "loop(calls=12)")
    text, data = (tmp_path / "report.html").read_text("utf-8"), data_of(tmp_path / "report.html")
    assert data["shown"] == []
    assert found_in(text, *texts(data)) == []
    assert "It holds no argument" in text


def test_a_report_that_is_no_file_gets_no_argument(tmp_path):
    """Whatever reads a pipe may keep it."""
    os.mkfifo(tmp_path / "report.html")
    reader = subprocess.Popen(["cat", tmp_path / "report.html"], stdout=subprocess.PIPE, text=True)
    with reader:
        keep = os.open(tmp_path / "report.html", os.O_WRONLY)  # so that the reader waits for the report itself
        shown = watched(tmp_path, "loop()", "--show-arguments", name="run")
        os.close(keep)
        text = reader.stdout.read()
    assert SHOWN in shown
    assert "It holds no argument" in text
    assert "canary" not in text
