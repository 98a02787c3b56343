"""The one way of text to the terminal: names in files may hold escape sequences, and must not reach it."""

from __future__ import annotations

import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.quoting import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class CleanStream:
    """A text stream that writes characters which are not shown as JSON escapes: text stays legible, and JSON valid."""

    def __init__(self, behind: Any) -> None:
        self.behind = behind
        """The stream itself, for output that moves the cursor or has colours."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)

    def write(self, text: str) -> int:
        """Write a text."""
        self.behind.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)


@contextmanager
def clean_output() -> Iterator[None]:
    """Write all output of the block to clean streams."""
    with redirect_stdout(CleanStream(sys.stdout)), redirect_stderr(CleanStream(sys.stderr)):
        yield


def terminal(stream: Any) -> Any:
    """Return the stream that takes control sequences."""
    return getattr(stream, "behind", stream)


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: 1 run, 1,000 runs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def write_line(stream: Any, line: bytes) -> None:
    """Write a line of JSON, past the text layer: a replay writes many."""
    stream.buffer.write(line if line.isascii() else escaped(line.decode()).encode())
