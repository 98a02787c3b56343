"""Write lines in styles: in colours to a terminal if rich is installed, else as plain text. No text is cut."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from importlib.util import find_spec
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

from otel_loopguard.cli.output import terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    Piece = tuple[str, str]
    """A text and its style, by rich's names."""

_PACE_SECONDS = 0.01
_WIDE = 140
_UNBROKEN = "\N{NO-BREAK SPACE}"
COLUMNS_FIT = 72
"""The width from which on texts of a line are columns. Below it they are lines."""


class Screen(Protocol):
    """The output of the demo."""

    width: int

    def line(self, *pieces: Piece) -> None:
        """Write one line."""


class Plain:
    """Writes plain text: for files, pipes and CI logs."""

    def __init__(self, width: int) -> None:
        self.width = width

    def line(self, *pieces: Piece) -> None:
        """Write one line."""
        print("".join(text for text, _ in pieces).rstrip(), flush=True)


class Rich:
    """Writes colours to a terminal, slowly enough to follow, and in ten seconds at most."""

    def __init__(self, console: Any, width: int) -> None:
        self._console = console
        self.width = width

    def line(self, *pieces: Piece) -> None:
        """Write one line, in colours."""
        from rich.text import Text  # noqa: PLC0415 - this class is used only if rich is installed

        text = Text.assemble(*pieces)
        text.rstrip()
        self._console.print(text, soft_wrap=True)
        time.sleep(_PACE_SECONDS)


def make_screen() -> Screen:
    """Make the screen that fits standard output; what is no terminal is as wide as COLUMNS, or 80."""
    width = min(_WIDE, shutil.get_terminal_size().columns)
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb" or find_spec("rich") is None:
        return Plain(width)
    from rich.console import Console  # noqa: PLC0415 - it obeys NO_COLOR itself

    return Rich(Console(highlight=False, file=terminal(sys.stdout)), width)


def write_block(screen: Screen, text: str, indent: int = 0, style: str = "") -> None:
    """Write a text, folded between its words."""
    for one in _folded(text, screen.width - indent):
        screen.line((" " * indent + one, style))


def write_columns(screen: Screen, indent: int, *columns: tuple[str, str, int]) -> None:
    """Write texts with their styles in columns of these widths, each folded; the last one, of 0, is the rest."""
    rest = screen.width - indent - sum(width + 1 for _, _, width in columns if width)
    cells = [_folded(text, width or rest) for text, _, width in columns]
    for row in zip_longest(*cells, fillvalue=""):
        *firsts, last = zip(row, columns, strict=True)
        pieces = [(f"{text:<{width}} ", style) for text, (_, style, width) in firsts]
        screen.line((" " * indent, ""), *pieces, (last[0], last[1][1]))


def write_table(screen: Screen, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write aligned columns, the first one text and the others numbers. If they do not fit, each row is some lines."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    if sum(widths) + 2 * len(widths) > screen.width:
        for name, *cells in rows:
            screen.line((name, "bold"))
            told = ", ".join(
                f"{title} {cell}".replace(" ", _UNBROKEN) for title, cell in zip(head[1:], cells, strict=True)
            )
            write_block(screen, told, 2)
        return
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        screen.line(("  ".join(cells), "bold" if row is head else ""))


def _folded(text: str, width: int) -> list[str]:
    """Fold a text between its words; a word that is longer than a line is left to the terminal."""
    lines = textwrap.wrap(text, max(1, width), break_long_words=False, break_on_hyphens=False) or [""]
    return [line.replace(_UNBROKEN, " ") for line in lines]
