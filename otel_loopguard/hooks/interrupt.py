"""End the run of a program that cannot be ended by an answer: with SIGINT, which is what Ctrl-C sends."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

_SHELLS: Final = ("sh", "bash", "dash", "zsh", "fish", "ksh", "ash")
_MOST_LEVELS: Final = 8
_SECONDS: Final = 5.0


def interrupt(process: int) -> None:
    """Send SIGINT to this process, or if it is a shell, to the nearest program above it, if there is one."""
    for _ in range(_MOST_LEVELS):
        parent, name = _parent_and_name(process)
        if name.lstrip("-") not in _SHELLS:
            break
        process = parent
    if process > 1 and name:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGINT)


def _parent_and_name(process: int) -> tuple[int, str]:
    """Return the parent of a process, and the name of its program; 0 and nothing if it is gone."""
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        command = ["ps", "-o", "ppid=,comm=", "-p", str(process)]
        shown = subprocess.check_output(command, text=True, timeout=_SECONDS)  # noqa: S603 - a number is added
        parent, name = shown.split(None, 1)
        return int(parent), Path(name.strip()).name
    return 0, ""
