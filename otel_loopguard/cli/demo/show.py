"""Show the stories with their calls, and a summary with the tokens that were spent, and an estimate of the others."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard import semconv
from otel_loopguard.cli.demo.reasons import EVIDENCE
from otel_loopguard.cli.demo.screen import COLUMNS_FIT, write_block, write_columns, write_table
from otel_loopguard.cli.demo.stories import STORIES
from otel_loopguard.cli.demo.tokens import (
    CHARACTERS,
    FEWEST_STEPS,
    FIRST_TOKENS,
    MOST_STEPS,
    SECONDS,
    estimate,
    spent_on,
)
from otel_loopguard.cli.output import counted
from otel_loopguard.report import Call, Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_loopguard.cli.demo.rows import Row, StoryResult
    from otel_loopguard.cli.demo.screen import Screen
    from otel_loopguard.cli.demo.stories import Story
    from otel_loopguard.testing.agent import Ask

DECISIONS = {
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
_DECISION_WIDTH = max(map(len, DECISIONS.values()))
_LONGEST_CALL = 44


class Narrator:
    """Shows stories on a screen while they run."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._quoted: set[str] = set()
        """The texts of this story that were shown already, without their digits."""
        write_block(screen, f"Each line is a call, the decision on it, and the reason. {EVIDENCE}", 0, "dim")

    def story(self, story: Story, number: int, of: int) -> None:
        """Show the heading of a story."""
        self._quoted.clear()
        self._screen.line(("", ""))
        self._screen.line((f"{number}/{of} {story.name}", "bold cyan"))
        write_block(self._screen, story.title, _INDENT)

    def row(self, row: Row) -> None:
        """Show a call, the guard's decision, its reason, and the text for the model."""
        decision, screen = DECISIONS[row.outcome], self._screen
        style = _REFUSED if row.refused else _STYLES.get(decision, "")
        quiet, call, number = "" if row.mode else "dim", _call_text(row.ask), (f"{row.number:>4}", "dim", 4)
        if screen.width < COLUMNS_FIT:
            write_columns(screen, 0, number, (call, "", 0))
            write_columns(screen, _INDENT, (decision, style, _DECISION_WIDTH), (row.reason, style or quiet, 0))
        else:
            columns = (decision, style, _DECISION_WIDTH), (row.reason, quiet or style, 0)
            write_columns(screen, 0, number, (call, "", min(_LONGEST_CALL, screen.width * 2 // 5)), *columns)
        if row.mode:
            text = _DIGITS.sub("", row.text)
            shown = "as above" if text in self._quoted else _one_line(row.text)
            self._quoted.add(text)
            write_block(screen, f"the model reads: {shown}", _INDENT, "italic")

    def end(self, result: StoryResult) -> None:
        """Show how the story ended."""
        ran, nudged, refused = _sums(result)
        if result.error is not None:
            how, style = f"the run was ended with {type(result.error).__name__}", _REFUSED
        elif result.ended:
            how, style = "this version of the framework ends such a run itself", "yellow"
        elif result.story.works:
            how, style = ("it works", "green") if not refused else ("REFUSED, wrongly", _REFUSED)
        else:
            how, style = ("the model reads that it is in a loop, and answers", "green") if refused else ("", "bold")
        calls = f"{counted(len(result.rows), 'call')}: {ran} ran, {nudged} nudged, {refused} refused"
        write_block(self._screen, calls + (f": {how}" if how else ""), _INDENT, style)


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

_HEAD = ("story", "calls", "ran", "nudged", "refused", "first refused", "tokens in loops")


def print_summary(screen: Screen, results: Sequence[StoryResult]) -> None:
    """Show the table, the tokens, and the estimate with its formula."""
    screen.line(("", ""))
    write_table(screen, _HEAD, [_table_row(result) for result in results])
    spent = [spent_on(result.rows) for result in results]
    all_spent, in_loops = sum(one.tokens for one in spent), sum(one.in_loops for one in spent)
    stuck = [result for result in results if not result.story.works]
    working = [result for result in results if result.story.works]
    refused = [
        f"{counted(sum(_sums(one).refused for one in runs), 'refused call')} in {counted(len(runs), f'{kind} run')}"
        for kind, runs in (("stuck", stuck), ("working", working))
        if runs
    ]
    screen.line(("", ""))
    write_block(screen, f"{', '.join(refused)}.", 0, "bold")
    tokens = f"{all_spent:,} tokens were spent, {in_loops:,} of them in loops."
    write_block(screen, f"{semconv.METRIC_MODEL_TOKENS}: {tokens}", 0, "bold")
    write_block(
        screen,
        f"A scripted model has no tokens of its own: {CHARACTERS} characters count as one. A request reads "
        f"{FIRST_TOKENS:,} tokens and all calls before it, and writes a call.",
        0,
        "dim",
    )
    if stuck:
        _print_estimate(screen, results)


def _print_estimate(screen: Screen, results: Sequence[StoryResult]) -> None:
    least, most = (
        [estimate(result, steps) for result in results if not result.story.works]
        for steps in (FEWEST_STEPS, MOST_STEPS)
    )
    tokens = [sum(one.tokens for one in each) for each in (least, most)]
    minutes = [sum(one.seconds for one in each) / 60 for each in (least, most)]
    write_block(
        screen,
        f"Not spent, as an estimate: {tokens[0]:,} to {tokens[1]:,} tokens, "
        f"{minutes[0]:.1f} to {minutes[1]:.1f} minutes.",
        0,
        "bold green",
    )
    write_block(
        screen,
        f"The estimate: without a guard each stuck run goes on to {FEWEST_STEPS} requests, where the OpenAI Agents SDK "
        f"ends one by default, or to {MOST_STEPS}, where Pydantic AI does. Request k reads {FIRST_TOKENS:,} tokens "
        f"and k calls of this run's mean length, and takes {SECONDS:.0f} s.",
        0,
        "dim",
    )


def print_list(screen: Screen) -> None:
    """Show the name and the sentence of each story."""
    longest = max(map(len, STORIES))
    for name, story in STORIES.items():
        if screen.width < COLUMNS_FIT:
            screen.line((name, "bold"))
            write_block(screen, story.title, 2)
        else:
            write_columns(screen, 0, (name, "bold", longest + 1), (story.title, "", 0))


def _table_row(result: StoryResult) -> tuple[str, ...]:
    first = next((f"call {row.number}" for row in result.rows if row.refused), "-")
    in_loops = spent_on(result.rows).in_loops
    return (
        str(result.story.name),
        str(len(result.rows)),
        *map(str, _sums(result)),
        first,
        f"{in_loops:,}" if in_loops else "-",
    )


def runs_of(results: Sequence[StoryResult]) -> Iterator[Run]:
    """The stories as the HTML report needs them: names and numbers, no value."""
    for result in results:
        numbers: dict[str, int] = {}
        calls = [
            Call(row.ask.tool, numbers.setdefault(str(row.ask), len(numbers)), DECISIONS[row.outcome], row.mode, row.at)
            for row in result.rows
        ]
        yield Run("demo", result.story.name, calls, spent_on(result.rows))
