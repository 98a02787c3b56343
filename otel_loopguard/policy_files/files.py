"""Read a small file of settings. A pipe, a device or a large file must not stop the program that it configures."""

from __future__ import annotations

import os
import stat

from otel_loopguard.interrupts import pass_interrupt

MOST_BYTES = 1_000_000
_NO_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class UnreadableError(Exception):
    """A file cannot be read; the text gives the reason."""


def read_bytes(path: str) -> bytes:
    """Read a regular file of at most ``MOST_BYTES``; raise ``UnreadableError`` for anything else."""
    try:
        _check(os.stat(path))  # opening a device may already have an effect
        with open(os.open(path, os.O_RDONLY | _NO_WAITING), "rb") as file:
            _check(os.fstat(file.fileno()))  # the path may name another file by now
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        pass_interrupt(error)
        raise UnreadableError(getattr(error, "strerror", None) or "the path is not valid") from error
    if len(data) > MOST_BYTES:
        raise UnreadableError(f"it is larger than {MOST_BYTES:,} bytes")
    return data


def _check(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableError("it is not a regular file")
