"""What it came to: a table by mode, and an estimate, with its formula, of what was not spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.report import Call, Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_loopguard.cli.demo.model import Row
    from otel_loopguard.cli.demo.screen import Screen
    from otel_loopguard.cli.demo.session import Told

STEPS = 50
"""Where an unguarded run is assumed to end: the number of requests after which Pydantic AI ends one by default."""
FIRST_TOKENS = 1_000
"""Assumed of the prompt and the tools' descriptions."""
SECONDS = 2.0
"""Assumed of one request to a model."""
_DECISIONS = {
    "executed": "ran", "failed": "failed", "cancelled": "failed", "nudged": "nudged", "reused": "reused",
    "blocked": "refused", "aborted": "aborted",
}  # fmt: skip
_CHARACTERS = 4
"""A token has about four."""


class Saved(NamedTuple):
    """What was not spent."""

    requests: int = 0
    tokens: int = 0
    seconds: float = 0.0


def saved(told: Told) -> Saved:
    """The requests from where this run ended to where it would have, each of which reads all calls before it."""
    made = len(told.rows)
    if told.story.works or told.ended or not made:
        return Saved()
    a_call = sum(len(row.text) + len(str(row.ask)) for row in told.rows) // made // _CHARACTERS
    missing = range(made, STEPS)
    return Saved(len(missing), sum(FIRST_TOKENS + number * a_call for number in missing), len(missing) * SECONDS)


def print_summary(screen: Screen, tales: Sequence[Told]) -> None:
    """The table, the estimate, and how it was made."""
    rows = [_row(told) for told in tales]
    screen.line(("", ""))
    screen.table(
        "What happened", ("story", "calls", "ran", "nudged", "refused", "first refused", "tokens not spent"), rows
    )
    everything = [saved(told) for told in tales]
    requests, tokens = sum(one.requests for one in everything), sum(one.tokens for one in everything)
    refused = sum(row.refused for told in tales for row in told.rows)
    stuck = sum(not told.story.works for told in tales)
    wrongly = sum(row.refused for told in tales if told.story.works for row in told.rows)
    screen.line(("", ""))
    screen.line(
        (f"{refused} calls were refused in {stuck} stuck runs, {wrongly} in {len(tales) - stuck} that work.", "bold")
    )
    minutes = requests * SECONDS / 60
    screen.line((f"Not spent, as an estimate: {tokens:,} tokens and {minutes:.0f} minutes.", "bold green"))
    screen.block(
        f"The estimate: without a guard each stuck run goes on to {STEPS} requests, where Pydantic AI ends one by "
        f"default. Request k reads {FIRST_TOKENS:,} tokens and all k calls before it (their characters in this run "
        f"/ {_CHARACTERS}), and takes {SECONDS:.0f} s.",
        0,
        "dim",
    )


def _row(told: Told) -> tuple[str, ...]:
    refused = [row for row in told.rows if row.refused]
    nudged = sum(row.outcome == "nudged" for row in told.rows)
    estimate = saved(told)
    return (
        str(told.story.name),
        str(len(told.rows)),
        str(len(told.rows) - len(refused)),
        str(nudged),
        str(len(refused)),
        _first(told, refused[0]) if refused else "-",
        f"{estimate.tokens:,}" if estimate.tokens else "-",
    )


def _first(told: Told, row: Row) -> str:
    other = "" if row.mode == told.story.name else f"{row.mode}, "
    return f"{other}call {row.number}"


def runs_of(tales: Sequence[Told]) -> Iterator[Run]:
    """The stories as the HTML report takes them: names and numbers, no value."""
    for told in tales:
        numbers: dict[str, int] = {}
        calls = [
            Call(
                row.ask.tool, numbers.setdefault(str(row.ask), len(numbers)), _DECISIONS[row.outcome], row.mode, row.at
            )
            for row in told.rows
        ]
        yield Run("demo", told.story.name, calls)
