"""Write folded lines: in colours to a terminal if rich is installed, else as plain text. No text is cut."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from otel_loopguard.cli.output import terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

_PACE_SECONDS = 0.01
_WIDE = 140
_UNBROKEN = "\N{NO-BREAK SPACE}"


class Screen:
    """Standard output, this wide. A console of rich gets colours, slowly enough to follow."""

    def __init__(self, width: int, console: Any = None) -> None:
        self.width = width
        self._console = console

    def write(self, text: str = "", style: str = "", *, indent: int = 0, hanging: int = 0) -> None:
        """Write a text in a style of rich, folded between its words; ``hanging`` indents all lines but the first.

        A word that is longer than a line is left to the terminal.
        """
        folder = textwrap.TextWrapper(self.width, break_long_words=False, break_on_hyphens=False)
        folder.initial_indent, folder.subsequent_indent = " " * indent, " " * (indent + hanging)
        for line in folder.wrap(text) or [""]:
            self._line(line.replace(_UNBROKEN, " "), style)

    def _line(self, line: str, style: str) -> None:
        if self._console is None:
            print(line, flush=True)
        else:
            self._console.print(line, style=style, markup=False, soft_wrap=True)
            time.sleep(_PACE_SECONDS)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write aligned columns, the first one text and the others numbers. If they do not fit, rows are sentences."""
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        if sum(widths) + 2 * len(widths) > self.width:
            for name, *cells in rows:
                named = (f"{title} {cell}" for title, cell in zip(head[1:], cells, strict=True))
                self.write(name, "bold")
                self.write(", ".join(one.replace(" ", _UNBROKEN) for one in named), indent=2)
            return
        for name, *cells in (head, *rows):
            numbers = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            self._line("  ".join((name.ljust(widths[0]), *numbers)), "bold" if name == head[0] else "")


def make_screen() -> Screen:
    """Make the screen that fits standard output; what is no terminal is as wide as COLUMNS, or 80."""
    width = min(_WIDE, shutil.get_terminal_size().columns)
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb" or find_spec("rich") is None:
        return Screen(width)
    from rich.console import Console  # noqa: PLC0415 - it obeys NO_COLOR itself

    return Screen(width, Console(highlight=False, file=terminal(sys.stdout)))
