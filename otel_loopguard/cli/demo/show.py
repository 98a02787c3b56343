"""Show the stories with their calls, and a summary with the tokens. Lines are folded, in colours in a terminal."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

from otel_loopguard import semconv
from otel_loopguard.cli.demo.reasons import PERCENT
from otel_loopguard.cli.demo.run import CHARACTERS, FIRST_TOKENS
from otel_loopguard.cli.demo.stories import STORIES
from otel_loopguard.cli.output import counted, terminal
from otel_loopguard.report import Call, Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_loopguard.cli.demo.run import Row, StoryResult
    from otel_loopguard.cli.demo.stories import Story
    from otel_loopguard.testing.agent import Ask

_WIDE = 140
_UNBROKEN = "\N{NO-BREAK SPACE}"
_COLOURS = {"bold": 1, "dim": 2, "italic": 3, "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}
"""Codes of ANSI terminals."""
_DECISIONS = {
    "executed": "ran", "failed": "failed", "cancelled": "failed", "nudged": "nudged", "reused": "reused",
    "blocked": "refused", "aborted": "aborted",
}  # fmt: skip
"""The words of the HTML report for the outcomes of calls."""
_STYLES = {"ran": "green", "nudged": "yellow", "failed": "magenta"}
_REFUSED = "bold red"
_DIGITS = re.compile(r"\d")
_UNFOLDABLE = re.compile(r'":(?! )|,(?=")')
"""Places of JSON that have no blank."""
_INDENT = 5
_HEAD = ("story", "calls", "ran", "of them nudged", "refused", "from", "tokens in loops")


class Screen:
    """Standard output, folded to a width in characters. No text is cut: a word longer than a line is left whole."""

    def __init__(self, width: int, *, coloured: bool = False) -> None:
        self.width = width
        self._coloured = coloured

    def write(self, text: str = "", style: str = "", *, indent: int = 0, hanging: int = 0) -> None:
        """Write a text, folded between its words. All lines but the first begin with ``hanging`` more blanks.

        ``style`` are words of ``_COLOURS``, such as ``bold red``.
        """
        blank, more = " " * indent, " " * hanging
        folder = textwrap.TextWrapper(self.width, blank, blank + more, break_long_words=False, break_on_hyphens=False)
        for line in folder.wrap(text) or [""]:
            self._line(line.replace(_UNBROKEN, " "), style)

    def _line(self, line: str, style: str) -> None:
        if style and self._coloured:
            line = f"\x1b[{';'.join(str(_COLOURS[word]) for word in style.split())}m{line}\x1b[0m"
        print(line, file=terminal(sys.stdout), flush=True)

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
    takes_codes = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return Screen(
        min(_WIDE, shutil.get_terminal_size().columns), coloured=takes_codes and not os.environ.get("NO_COLOR")
    )


class Narrator:
    """Shows stories on a screen while they run."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._quoted: set[str] = set()
        """The texts of this story that were shown already, without their digits."""

    def story(self, story: Story, number: int, of: int) -> None:
        """Show the heading of a story."""
        self._quoted.clear()
        if number > 1:
            self._screen.write()
        self._screen.write(f"{number}/{of} {story.name}", "bold cyan")
        self._screen.write(story.title, indent=_INDENT)

    def left_out(self, reason: str) -> None:
        """Say why the story of the last heading does not run."""
        self._screen.write(f"Left out: {reason}", "yellow", indent=_INDENT)

    def row(self, number: int, row: Row) -> None:
        """Show a call, the guard's decision, its reason, and the text for the model."""
        decision = _DECISIONS[row.outcome]
        line = f"{number:>4} {decision:<7} {_call_text(row.ask)}  # {row.reason}"
        self._screen.write(line, _REFUSED if row.refused else _STYLES[decision], hanging=_INDENT)
        if row.mode:
            text = _DIGITS.sub("", row.text)
            shown = "as above" if text in self._quoted else _one_line(row.text)
            self._quoted.add(text)
            self._screen.write(f"the model reads: {shown}", "italic", indent=_INDENT)

    def end(self, result: StoryResult) -> None:
        """Show how the story ended."""
        ran, nudged, refused = _sums(result)
        if result.error is not None:
            how, style = f": the run was ended with {type(result.error).__name__}", _REFUSED
        elif result.story.works:
            how, style = (": it works", "green") if not refused else (": REFUSED, wrongly", _REFUSED)
        else:
            how, style = (": the model reads that it is in a loop, and answers", "green") if refused else ("", "bold")
        calls = f"{counted(len(result.rows), 'call')}: {ran} ran, {nudged} of them nudged, {refused} refused"
        self._screen.write(calls + how, style, indent=_INDENT)


def _sums(result: StoryResult) -> tuple[int, int, int]:
    """Count the calls that ran, those of them with a sentence in the result, and those that were refused."""
    refused = sum(row.refused for row in result.rows)
    nudged = sum(row.outcome == "nudged" for row in result.rows)
    return len(result.rows) - refused, nudged, refused


def _call_text(ask: Ask) -> str:
    """Return the call as source code."""
    arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in ask.arguments.items())
    return f"{ask.tool}({arguments})"


def _one_line(text: str) -> str:
    """Return the text for the model in one line, with blanks where it can be folded; of a refusal only its message."""
    if text.startswith('{"error"'):
        text = json.loads(text).get("message", text)
    return _UNFOLDABLE.sub(r"\g<0> ", " / ".join(line for line in text.splitlines() if line))


def print_summary(screen: Screen, results: Sequence[StoryResult]) -> None:
    """Show the table, the tokens with their formula, and what the lines of the stories mean."""
    screen.write()
    screen.table(_HEAD, [_table_row(result) for result in results])
    refused = []
    for kind in ("stuck", "working"):
        runs = [_sums(result) for result in results if result.story.works == (kind == "working")]
        if runs:
            calls = counted(sum(one[2] for one in runs), "refused call")
            refused.append(f"{calls} in {counted(len(runs), f'{kind} run')}")
    spent = [result.spent for result in results]
    screen.write()
    screen.write(f"{', '.join(refused)}.", "bold")
    screen.write(
        f"{semconv.METRIC_MODEL_TOKENS}: {sum(one.tokens for one in spent):,} tokens were spent, "
        f"{sum(one.in_loops for one in spent):,} of them in loops.",
        "bold",
    )
    screen.write(
        f"A scripted model has no tokens of its own: {CHARACTERS} characters count as one. A request reads "
        f"{FIRST_TOKENS:,} tokens and all calls before it, and writes a call.",
        "dim",
    )
    screen.write(
        "Each line is a call after the decision on it, and the reason. Evidence is what the repeats of a call "
        f"prove so far. The call that would complete 100{PERCENT} is refused.",
        "dim",
    )


def _table_row(result: StoryResult) -> tuple[str, ...]:
    first = next((f"call {number}" for number, row in enumerate(result.rows, 1) if row.refused), "-")
    in_loops = result.spent.in_loops
    return result.story.name, *map(str, (len(result.rows), *_sums(result))), first, f"{in_loops:,}" if in_loops else "-"


def print_list(screen: Screen) -> None:
    """Show the name and the sentence of each story."""
    longest = max(map(len, STORIES))
    for name, story in STORIES.items():
        screen.write(f"{name:<{longest}} {story.title}", hanging=longest + 1)


def runs_of(results: Sequence[StoryResult]) -> Iterator[Run]:
    """Yield the stories as the HTML report needs them: names and numbers, no value."""
    for result in results:
        numbers: dict[str, int] = {}
        calls = []
        for row in result.rows:
            number = numbers.setdefault(str(row.ask), len(numbers))
            calls.append(Call(row.ask.tool, number, _DECISIONS[row.outcome], row.mode, row.at))
        yield Run("demo", result.story.name, calls, result.spent)
