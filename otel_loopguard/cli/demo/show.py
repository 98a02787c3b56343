"""Show the stories with their calls, and a summary with the tokens that were spent."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard import semconv
from otel_loopguard.cli.demo.reasons import EVIDENCE
from otel_loopguard.cli.demo.stories import STORIES
from otel_loopguard.cli.demo.tokens import CHARACTERS, FIRST_TOKENS, spent_on
from otel_loopguard.cli.output import counted
from otel_loopguard.report import Call, Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_loopguard.cli.demo.rows import Row, StoryResult
    from otel_loopguard.cli.demo.screen import Screen
    from otel_loopguard.cli.demo.stories import Story
    from otel_loopguard.testing.agent import Ask

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


class Narrator:
    """Shows stories on a screen while they run."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._quoted: set[str] = set()
        """The texts of this story that were shown already, without their digits."""
        screen.write(f"Each line is a call after the decision on it, and the reason. {EVIDENCE}", "dim")

    def story(self, story: Story, number: int, of: int) -> None:
        """Show the heading of a story."""
        self._quoted.clear()
        self._screen.write()
        self._screen.write(f"{number}/{of} {story.name}", "bold cyan")
        self._screen.write(story.title, indent=_INDENT)

    def left_out(self, reason: str) -> None:
        """Say why the story of the last heading does not run."""
        self._screen.write(f"Left out: {reason}", "yellow", indent=_INDENT)

    def row(self, row: Row) -> None:
        """Show a call, the guard's decision, its reason, and the text for the model."""
        decision = _DECISIONS[row.outcome]
        line = f"{row.number:>4} {decision:<7} {_call_text(row.ask)}  # {row.reason}"
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
        calls = f"{counted(len(result.rows), 'call')}: {ran} ran, {nudged} nudged, {refused} refused"
        self._screen.write(calls + how, style, indent=_INDENT)


class _Sums(NamedTuple):
    """The calls of a story. Each is in one of these, so that they add up to all."""

    ran: int
    nudged: int
    """They ran, and the model read a sentence with the result."""
    refused: int


def _sums(result: StoryResult) -> _Sums:
    refused = sum(row.refused for row in result.rows)
    nudged = sum(row.outcome == "nudged" for row in result.rows)
    return _Sums(len(result.rows) - nudged - refused, nudged, refused)


def _call_text(ask: Ask) -> str:
    """The call as source code."""
    arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in ask.arguments.items())
    return f"{ask.tool}({arguments})"


def _one_line(text: str) -> str:
    """The text for the model in one line, with places where it can be folded."""
    return _UNFOLDABLE.sub(r"\g<0> ", " / ".join(line for line in text.splitlines() if line))


# --- the summary -----------------------------------------------------------------------------------------------------

_HEAD = ("story", "calls", "ran", "nudged", "refused", "from", "tokens in loops")


def print_summary(screen: Screen, results: Sequence[StoryResult]) -> None:
    """Show the table, and the tokens with their formula."""
    screen.write()
    screen.table(_HEAD, [_table_row(result) for result in results])
    groups = [[one for one in results if one.story.works is works] for works in (False, True)]
    refused = [
        f"{counted(sum(_sums(one).refused for one in runs), 'refused call')} in {counted(len(runs), f'{kind} run')}"
        for kind, runs in zip(("stuck", "working"), groups, strict=True)
        if runs
    ]
    spent = [spent_on(result.rows) for result in results]
    all_spent, in_loops = sum(one.tokens for one in spent), sum(one.in_loops for one in spent)
    screen.write()
    screen.write(f"{', '.join(refused)}.", "bold")
    tokens = f"{all_spent:,} tokens were spent, {in_loops:,} of them in loops."
    screen.write(f"{semconv.METRIC_MODEL_TOKENS}: {tokens}", "bold")
    screen.write(
        f"A scripted model has no tokens of its own: {CHARACTERS} characters count as one. A request reads "
        f"{FIRST_TOKENS:,} tokens and all calls before it, and writes a call.",
        "dim",
    )


def print_list(screen: Screen) -> None:
    """Show the name and the sentence of each story."""
    longest = max(map(len, STORIES))
    for name, story in STORIES.items():
        screen.write(f"{name:<{longest}} {story.title}", hanging=longest + 1)


def _table_row(result: StoryResult) -> tuple[str, ...]:
    first = next((f"call {row.number}" for row in result.rows if row.refused), "-")
    in_loops = spent_on(result.rows).in_loops
    sums = map(str, _sums(result))
    return result.story.name, str(len(result.rows)), *sums, first, f"{in_loops:,}" if in_loops else "-"


def runs_of(results: Sequence[StoryResult]) -> Iterator[Run]:
    """The stories as the HTML report needs them: names and numbers, no value."""
    for result in results:
        numbers: dict[str, int] = {}
        calls = []
        for row in result.rows:
            number = numbers.setdefault(str(row.ask), len(numbers))
            calls.append(Call(row.ask.tool, number, _DECISIONS[row.outcome], row.mode, row.at))
        yield Run("demo", result.story.name, calls, spent_on(result.rows))
