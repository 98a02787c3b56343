"""Write text to the terminal so that escape sequences in names, which models may make up, do not reach it."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.quoting import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class CleanStream:
    """A text stream that writes unprintable characters as the escapes of JSON, which stays valid."""

    def __init__(self, behind: Any) -> None:
        self.behind = behind
        """The stream that is written to; for output with escape sequences of our own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)

    def write(self, text: str) -> int:
        """Write a text with escapes; return its length in characters."""
        self.behind.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each text with escapes."""
        for line in lines:
            self.write(line)


@contextmanager
def clean_output() -> Iterator[None]:
    """Let the block write its standard output and standard error by way of ``CleanStream``.

    A stream that was closed when the process started is None, and takes no text.
    """
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        redirect_stdout(CleanStream(sys.stdout or nowhere)),
        redirect_stderr(CleanStream(sys.stderr or nowhere)),
    ):
        yield


def terminal(stream: Any) -> Any:
    """Return the stream behind a ``CleanStream``, which takes escape sequences; other streams are returned as such."""
    return getattr(stream, "behind", stream)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 run`` or ``1,000 runs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def write_line(stream: Any, line: bytes) -> None:
    """Write a line of JSON with escapes. It skips the text layer of the stream: a replay writes many lines."""
    stream.buffer.write(line if line.isascii() else escaped(line.decode()).encode())
