"""The command as users start it: a separate process, in an environment without settings."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.instrumentation.processes import clean_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMAND = (sys.executable, "-m", "otel_loopguard.cli.main")
NOTHING_EXPORTED = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment variables of the command."""
    return clean_environment({**NOTHING_EXPORTED, **(more or {})})


def command(*arguments: str, more: Mapping[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    usual: dict[str, Any] = {"env": environment(more), "capture_output": True, "text": True, "timeout": 120}
    return subprocess.run([*COMMAND, *arguments], check=False, **{**usual, **options})


def in_terminal(
    *arguments: str, columns: int = 120, more: Mapping[str, str] | None = None, errors: bool = False
) -> str:
    """Run it with a terminal of this width at its standard output, and return its output.

    ``errors``: the terminal is at its standard error, whose text is returned.
    """
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environ = {**environment(more), "TERM": "xterm-256color"}
    environ.pop("COLUMNS", None)
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stderr" if errors else "stdout": theirs}
    with subprocess.Popen([*COMMAND, *arguments], env=environ, **streams) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # Linux: the other end was closed
                break
            if not part:
                break
            parts.append(part)
        process.wait(timeout=60)
    os.close(ours)
    return b"".join(parts).decode()
