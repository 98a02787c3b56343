"""Show how much of the inputs is read, on one line of a terminal."""

from __future__ import annotations

import sys
from time import monotonic
from typing import TYPE_CHECKING

from otel_loopguard.cli.output import terminal

if TYPE_CHECKING:
    from otel_loopguard.cli.replay.sources import Reader

_EVERY = 0.2
_WIDTH = 24


class Progress:
    """A line on standard error that shows the share of the inputs that is read, if that is a terminal."""

    def __init__(self, readers: list[Reader], *, wanted: bool, title: str = "") -> None:
        self._title = title
        self.shown = wanted and sys.stderr.isatty()
        self._readers = readers
        self._size = sum(reader.size for reader in readers)
        self._started = self._last = monotonic()

    def step(self, calls: int, runs: int) -> None:
        """Show these numbers of judged calls and runs. The line is written at most five times a second."""
        if not self.shown:
            return
        now = monotonic()
        if now - self._last < _EVERY:
            return
        self._last = now
        done = sum(reader.position for reader in self._readers)
        share = min(1.0, done / self._size) if self._size else 0.0
        width = _WIDTH - len(self._title)
        bar = "#" * round(share * width)
        rate = calls / max(now - self._started, 1e-9)
        text = f"\r{self._title}[{bar:<{width}}] {share:4.0%}  {runs:,} runs  {calls:,} calls  {rate:,.0f} calls/s"
        print(f"{text:<79}", end="", file=terminal(sys.stderr), flush=True)

    def clear(self) -> None:
        """Remove the line, before other output."""
        if self.shown:
            print("\r" + " " * 79 + "\r", end="", file=terminal(sys.stderr), flush=True)
