"""Show the stories with their calls, and a summary with the tokens that were spent, and an estimate of the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from otel_loopguard import semconv
from otel_loopguard.cli.demo.tokens import CHARACTERS, FIRST_TOKENS, SECONDS, STEPS, estimate, spent_on
from otel_loopguard.report import Call, Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_loopguard.cli.demo.rows import Row, StoryResult
    from otel_loopguard.cli.demo.screen import Screen
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


class Narrator:
    """Shows stories on a screen while they run."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._quoted: set[str] = set()
        """The texts of this story that were shown already."""

    def story(self, story: Story, number: int, of: int) -> None:
        """Show the heading of a story."""
        self._quoted.clear()
        self._screen.line(("", ""))
        self._screen.line((f"{number}/{of} {story.name}", "bold cyan"), (f"  {story.title}", ""))

    def row(self, row: Row) -> None:
        """Show a call, the guard's decision, its reason, and the text for the model."""
        style = _REFUSED if row.refused else _STYLES.get(row.outcome, "")
        self._screen.line(
            (f"{row.number:4} ", "dim"),
            (f"{_call_text(row.ask):<{_LONGEST_ASK}} ", ""),
            (f"{row.outcome:<9}", style),
            (f" {_reason(row)}", "dim" if not row.mode else style),
        )
        if row.mode and row.text not in self._quoted:
            self._quoted.add(row.text)
            self._screen.block(f"the model reads: {_one_line(row.text)}", 9, "italic")

    def end(self, result: StoryResult) -> None:
        """Show how the story ended."""
        refused = sum(row.refused for row in result.rows)
        ran = len(result.rows) - refused
        if result.error is not None:
            how, style = f"the run was ended with {type(result.error).__name__}", _REFUSED
        elif result.ended:
            how, style = "this version of the framework ends such a run itself", "yellow"
        elif result.story.works:
            how, style = ("nothing was refused: it works", "green") if not refused else ("REFUSED, wrongly", _REFUSED)
        else:
            how, style = ("the model reads that it is in a loop, and answers", "green") if refused else ("", "")
        self._screen.line((f"     {ran} calls ran, {refused} were refused", "bold"), (f": {how}" if how else "", style))


def _call_text(ask: Ask) -> str:
    """The call as source code, cut to its column."""
    arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in ask.arguments.items())
    text = f"{ask.tool}({arguments})"
    return text if len(text) <= _LONGEST_ASK else text[: _LONGEST_ASK - 4] + "...)"


def _reason(row: Row) -> str:
    """The reason of the guard's decision."""
    if row.mode:
        return f"{row.mode}: {row.count}, limit {row.limit}"
    return _SAMENESS.get(row.sameness, "")


def _one_line(text: str) -> str:
    """The text for the model in one line, with places where it can be folded."""
    return " / ".join(line for line in text.splitlines() if line).replace('","', '", "')


# --- the summary -----------------------------------------------------------------------------------------------------

_DECISIONS = {
    "executed": "ran", "failed": "failed", "cancelled": "failed", "nudged": "nudged", "reused": "reused",
    "blocked": "refused", "aborted": "aborted",
}  # fmt: skip


def print_summary(screen: Screen, results: Sequence[StoryResult]) -> None:
    """Show the table, the estimate, and its formula."""
    rows = [_table_row(result) for result in results]
    screen.line(("", ""))
    screen.table(
        "What happened", ("story", "calls", "ran", "nudged", "refused", "first refused", "in loops", "not spent"), rows
    )
    estimates = [estimate(result) for result in results]
    requests, tokens = sum(one.requests for one in estimates), sum(one.tokens for one in estimates)
    spent = [spent_on(result.rows) for result in results]
    all_spent, in_loops = sum(one.tokens for one in spent), sum(one.in_loops for one in spent)
    refused = sum(row.refused for result in results for row in result.rows)
    stuck = sum(not result.story.works for result in results)
    wrongly = sum(row.refused for result in results if result.story.works for row in result.rows)
    screen.line(("", ""))
    screen.line(
        (f"{refused} calls were refused in {stuck} stuck runs, {wrongly} in {len(results) - stuck} that work.", "bold")
    )
    counted = f"{all_spent:,} tokens were spent, {in_loops:,} of them in loops."
    screen.line((f"{semconv.METRIC_MODEL_TOKENS}: {counted}", "bold"))
    screen.block(
        f"A scripted model has no tokens of its own: {CHARACTERS} characters count as one. A request reads "
        f"{FIRST_TOKENS:,} tokens and all calls before it, and writes a call.",
        0,
        "dim",
    )
    minutes = requests * SECONDS / 60
    screen.line((f"Not spent, as an estimate: {tokens:,} tokens and {minutes:.0f} minutes.", "bold green"))
    screen.block(
        f"The estimate: without a guard each stuck run goes on to {STEPS} requests, where Pydantic AI ends one by "
        f"default. Request k reads {FIRST_TOKENS:,} tokens and k calls of this run's mean length, and takes "
        f"{SECONDS:.0f} s.",
        0,
        "dim",
    )


def _table_row(result: StoryResult) -> tuple[str, ...]:
    refused = [row for row in result.rows if row.refused]
    nudged = sum(row.outcome == "nudged" for row in result.rows)
    in_loops, tokens = spent_on(result.rows).in_loops, estimate(result).tokens
    return (
        str(result.story.name),
        str(len(result.rows)),
        str(len(result.rows) - len(refused)),
        str(nudged),
        str(len(refused)),
        _first(result, refused[0]) if refused else "-",
        f"{in_loops:,}" if in_loops else "-",
        f"{tokens:,}" if tokens else "-",
    )


def _first(result: StoryResult, row: Row) -> str:
    other = "" if row.mode == result.story.name else f"{row.mode}, "
    return f"{other}call {row.number}"


def runs_of(results: Sequence[StoryResult]) -> Iterator[Run]:
    """The stories as the HTML report needs them: names and numbers, no value."""
    for result in results:
        numbers: dict[str, int] = {}
        calls = [
            Call(
                row.ask.tool, numbers.setdefault(str(row.ask), len(numbers)), _DECISIONS[row.outcome], row.mode, row.at
            )
            for row in result.rows
        ]
        yield Run("demo", result.story.name, calls, spent_on(result.rows))
