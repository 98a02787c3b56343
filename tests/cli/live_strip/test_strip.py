"""The live strip beside a watched program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from otel_loopguard import Policy
from otel_loopguard.cli.live_strip.strip import live_strip
from tests.cli.processes import command
from tests.cli.screens import on_screen

from .programs import beside, span_line

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals on Windows")
LOOP = """
import otel_loopguard as loopguard
with loopguard.turn():
    for _ in range(5):
        loopguard.call("look", {"path": "SECRET"}, lambda path: "text")
"""


def watched(tmp_path, text, **options):
    """A screen with a watch of this program."""
    app = tmp_path / "app.py"
    app.write_text(text)
    return on_screen("watch", "-o", str(tmp_path / "report.html"), "--", sys.executable, str(app), **options)


def test_a_loop_is_seen_while_the_program_runs(tmp_path):
    """It is named, with what the guard would have done; after Ctrl-C the summary is all that is on the screen."""
    with watched(tmp_path, LOOP + "print('ready')\nimport time\ntime.sleep(600)", rows=40) as screen:
        screen.until_last_row(" loopguard  ▫▴✗✗✗ look x5 | 5 calls, 3 would be refused")
        assert screen.screen.buffer[39][14].fg == "red"
        assert "ready" in screen.rows
        screen.type("\x03")
        assert screen.until_end() in (1, 130)
    assert "KeyboardInterrupt" in screen.rows
    assert "1 of 1 turn looped" in "".join(screen.rows)
    assert " loopguard  " not in "".join(screen.lines)
    assert screen.screen.margins is None
    assert b"SECRET" not in screen.written


def test_run_shows_what_the_guard_did(tmp_path):
    """The calls were refused; at the end only the lines of the run are on the screen."""
    app = tmp_path / "app.py"
    app.write_text(LOOP + "input()")
    with on_screen("run", "-o", str(tmp_path / "report.html"), str(app), rows=40) as screen:
        screen.until_last_row(" loopguard  ▫▴✗✗✗ look x5 | 5 calls, 3 refused")
        screen.type("\n")
        assert screen.until_end() == 0
    assert "otel-loopguard: 5 tool calls, 1 loop." in screen.rows
    assert " loopguard  " not in "".join(screen.lines)


@pytest.mark.parametrize("text", ["", "print('done')", "import os\nos.kill(os.getpid(), 9)"])
def test_a_program_without_calls_has_none(tmp_path, text):
    """Not one escape sequence is written."""
    with beside(tmp_path, text) as screen:
        screen.until_end()
    assert b"\x1b" not in screen.written


@pytest.mark.parametrize("variable", [{"TERM": "dumb"}, {"TERM": ""}, {"CI": "true"}])
def test_there_is_none_where_it_would_be_in_the_way(tmp_path, variable):
    """A terminal that takes no escape sequences has none, and the log of a CI run neither."""
    with beside(tmp_path, "import time\ncall()\ntime.sleep(0.5)", more=variable) as screen:
        screen.until_end()
    assert b"\x1b" not in screen.written


def test_without_colours_it_is_plain(tmp_path):
    """NO_COLOR is obeyed."""
    with beside(tmp_path, "call(2)\ninput()", more={"NO_COLOR": "1"}) as screen:
        screen.until_last_row(" loopguard  ▫▪ look x2 | 2 calls")
        assert b"\x1b[7m" not in screen.written


def test_a_terminal_that_is_not_of_utf_8_has_ascii(tmp_path):
    """Python tells its encoding."""
    with beside(tmp_path, "call(2)\ninput()", more={"PYTHONIOENCODING": "ascii"}) as screen:
        screen.until_last_row(" loopguard  .o look x2 | 2 calls")


def test_nothing_is_in_a_pipe(tmp_path):
    """Standard error is one, whatever standard output is."""
    with beside(tmp_path, "import time\ncall()\ntime.sleep(0.5)", stderr=subprocess.PIPE) as screen:
        screen.until_end()
        assert (screen.process.stderr.read(), screen.written) == (b"", b"ended with 0\r\n")
        screen.process.stderr.close()


def test_quiet_shows_none(tmp_path):
    """The summary at the end is there."""
    app = tmp_path / "app.py"
    app.write_text(LOOP + "import time\ntime.sleep(0.5)")
    report = str(tmp_path / "report.html")
    with on_screen("watch", "--quiet", "-o", report, "--", sys.executable, str(app), rows=40) as screen:
        screen.until_end()
    assert "1 of 1 turn looped" in "".join(screen.rows)
    assert b"\x1b" not in screen.written
    assert "\x1b" not in command("watch", "-o", report, "--", sys.executable, str(app)).stderr


def test_a_terminal_that_goes_away_does_no_harm(tmp_path, monkeypatch, caplog):
    """The block goes on to its end, and nothing is logged."""
    import pty

    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    spans = tmp_path / "spans.jsonl"
    spans.touch()
    with open(theirs, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        with live_strip(spans, Policy()):
            os.close(ours)
            spans.write_text(span_line(0))
    assert not caplog.records


def test_a_file_that_cannot_be_read_does_no_harm(tmp_path, monkeypatch, caplog):
    """The block runs without a strip."""
    import pty

    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with open(theirs, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        with live_strip(Path("/no/such/file"), Policy()):
            pass
    os.close(ours)
    assert not caplog.records
