"""The line that shows how much is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from . import made


def test_a_progress_bar_on_a_terminal_only(tmp_path):
    """A terminal sees how far it is; a pipe does not."""
    file = tmp_path / "runs.jsonl"
    file.write_text(json.dumps(made.run("plain", [made.call("read_file", {"path": "b"}, "text", 1)])) + "\n")
    pty = pytest.importorskip("pty")
    parent, child = pty.openpty()
    code = "from otel_loopguard.cli.replay import progress; progress._EVERY = 0\n"
    code += "from otel_loopguard.cli.main import main\n"
    code += f"raise SystemExit(main(['replay', {str(file)!r}]))"
    ended = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=child, check=True)
    os.close(child)
    assert b"runs" in os.read(parent, 10_000)
    os.close(parent)
    assert b"[#" not in ended.stdout
    quiet = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert quiet.stderr == b""
