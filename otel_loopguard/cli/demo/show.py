"""How a story and its calls are told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_loopguard.cli.demo.model import Row
    from otel_loopguard.cli.demo.screen import Screen
    from otel_loopguard.cli.demo.session import Told
    from otel_loopguard.cli.demo.stories import Story
    from otel_loopguard.testing.agent import Ask

_STYLES = {"executed": "green", "nudged": "yellow", "failed": "magenta"}
_REFUSED = "bold red"
_SAMENESS = {
    "first": "a new call",
    "same": "the same result as before",
    "alike": "only ids and numbers differ",
    "progress": "the numbers move on",
    "different": "the result has changed",
}
_LONGEST_ASK = 44


class Teller:
    """Tells on a screen what happens."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._read: set[str] = set()
        """What was quoted of this story already."""

    def story(self, story: Story, number: int, of: int) -> None:
        """What is about to happen."""
        self._read.clear()
        self._screen.line(("", ""))
        self._screen.line((f"{number}/{of} {story.name}", "bold cyan"), (f"  {story.title}", ""))

    def row(self, row: Row) -> None:
        """A call, what the guard made of it, why, and what the model reads."""
        style = _REFUSED if row.refused else _STYLES.get(row.outcome, "")
        self._screen.line(
            (f"{row.number:4} ", "dim"),
            (f"{asked(row.ask):<{_LONGEST_ASK}} ", ""),
            (f"{row.outcome:<9}", style),
            (f" {reason(row)}", "dim" if not row.mode else style),
        )
        if row.mode and row.text not in self._read:
            self._read.add(row.text)
            self._screen.block(f"the model reads: {spoken(row.text)}", 9, "italic")

    def end(self, told: Told) -> None:
        """How it ended."""
        refused = sum(row.refused for row in told.rows)
        ran = len(told.rows) - refused
        if told.error is not None:
            how, style = f"the run was ended with {type(told.error).__name__}", _REFUSED
        elif told.ended:
            how, style = "this version of the framework ends such a run itself", "yellow"
        elif told.story.works:
            how, style = ("nothing was refused: it works", "green") if not refused else ("REFUSED, wrongly", _REFUSED)
        else:
            how, style = ("the model reads that it is in a loop, and answers", "green") if refused else ("", "")
        self._screen.line((f"     {ran} calls ran, {refused} were refused", "bold"), (f": {how}" if how else "", style))


def asked(ask: Ask) -> str:
    """A call as one writes it, cut to its column."""
    arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in ask.arguments.items())
    text = f"{ask.tool}({arguments})"
    return text if len(text) <= _LONGEST_ASK else text[: _LONGEST_ASK - 4] + "...)"


def reason(row: Row) -> str:
    """Why the guard did what it did, in its own words."""
    if row.mode:
        return f"{row.mode}: {row.count}, limit {row.limit}"
    return _SAMENESS.get(row.sameness, "")


def spoken(text: str) -> str:
    """What the model reads, in one line that can be folded."""
    return " / ".join(line for line in text.splitlines() if line).replace('","', '", "')
