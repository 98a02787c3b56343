"""The hook's client where there is no curl."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from otel_loopguard.hooks.client import is_served
from tests.hooks.test_server import loop, path, server

if TYPE_CHECKING:
    from pathlib import Path

    from otel_loopguard.hooks.server import HookServer

__all__ = ["path", "server"]


def test_without_curl_a_python_is_a_client(server: HookServer, path: Path) -> None:
    """It says nothing where nobody answers, and fails, as curl does."""
    command = [sys.executable, "-m", "otel_loopguard.hooks.client", str(path), "codex/x", "10"]
    answers = loop(lambda body: subprocess.run(command, input=body, capture_output=True, check=True).stdout)
    assert [bool(answer) for answer in answers] == [False, False, True, True]
    assert is_served(str(path))
    command[3] = str(path.with_name("nobody"))
    assert not is_served(command[3])
    done = subprocess.run(command, input=b"{}", capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
