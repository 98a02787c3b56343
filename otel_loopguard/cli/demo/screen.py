"""Write text in styles: in colours to a terminal if rich is installed, else as plain text."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from otel_loopguard.cli.output import terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    Piece = tuple[str, str]
    """A text and its style, by rich's names."""

_PACE_SECONDS = 0.02
_NARROW, _WIDE = 60, 140


class Screen(Protocol):
    """The output of the demo."""

    width: int

    def line(self, *pieces: Piece) -> None:
        """Write one line."""

    def block(self, text: str, indent: int, style: str) -> None:
        """Write a longer text, folded."""

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table; the first column is text, the others are numbers."""


class Plain:
    """Writes plain text: for files, pipes and CI logs."""

    width = 110

    def line(self, *pieces: Piece) -> None:
        """Write one line."""
        print("".join(text for text, _ in pieces).rstrip(), flush=True)

    def block(self, text: str, indent: int, style: str) -> None:  # noqa: ARG002 - the protocol's signature
        """Write a longer text, folded."""
        for one in _folded(text, self.width - indent):
            print(" " * indent + one)

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write aligned columns."""
        widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
        print(title)
        for row in (head, *rows):
            cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]  # noqa: B905 - as long as the head
            print("  " + "  ".join(cells))


class Rich:
    """Writes colours to a terminal, slowly enough to follow, and in ten seconds at most."""

    def __init__(self, console: Any) -> None:
        self._console = console
        self.width = max(_NARROW, min(_WIDE, console.width))

    def line(self, *pieces: Piece) -> None:
        """Write one line, in colours."""
        from rich.text import Text  # noqa: PLC0415 - this class is used only if rich is installed

        self._console.print(Text.assemble(*pieces), soft_wrap=True)
        time.sleep(_PACE_SECONDS)

    def block(self, text: str, indent: int, style: str) -> None:
        """Write a longer text, folded."""
        for one in _folded(text, self.width - indent):
            self._console.print(" " * indent + one, style=style, markup=False, highlight=False)

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table with lines."""
        from rich.table import Table  # noqa: PLC0415 - as above

        table = Table(title=title, title_justify="left", title_style="bold")
        for number, name in enumerate(head):
            table.add_column(name, justify="right" if number else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        self._console.print(table)


def _folded(text: str, width: int) -> list[str]:
    return [one for line in text.splitlines() for one in textwrap.wrap(line, max(20, width)) or [""]]


def make_screen() -> Screen:
    """Make the screen that fits standard output."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb" or find_spec("rich") is None:
        plain = Plain()
        if sys.stdout.isatty():
            plain.width = max(_NARROW, min(_WIDE, shutil.get_terminal_size().columns))
        return plain
    from rich.console import Console  # noqa: PLC0415 - it obeys NO_COLOR itself

    return Rich(Console(highlight=False, file=terminal(sys.stdout)))
