"""The example of plain functions runs to its end, with the results that it describes."""

from __future__ import annotations

import subprocess
import sys

from tests.instrumentation.processes import ROOT, clean_environment


def test_plain_functions() -> None:
    """The poll, the made-up tool and the user's message are each answered as the example describes."""
    ended = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "plain_functions.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=clean_environment(),
    )
    assert "poll_no_progress" in ended.stdout
    assert "unknown_tool_repeat" in ended.stdout
    assert ended.stdout.count("stop, I found it myself") == 2
    assert ended.stdout.count("calls ran") == 3
