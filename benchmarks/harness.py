"""Measure processor time in rounds that take turns, and report it: what all benchmarks share.

A benchmark is a module with ``sections(quick=...)``, which measures and returns sections of rows. ``main`` makes it a
program: it prints tables, or with ``--json`` what ``python -m benchmarks`` reads.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
from dataclasses import asdict, dataclass, field
from time import thread_time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

Rounds = dict[str, list[float]]
"""The figure of each round, by the name of the case."""


@dataclass(frozen=True)
class Goal:
    """The limit of a row: of its median, or of the median of its ratios."""

    limit: float
    of_ratio: bool = False
    at_least: bool = False
    words: str = ""
    """What to write instead of the limit."""

    def met(self, figure: float) -> bool:
        """True if the figure is within the limit."""
        return figure >= self.limit if self.at_least else figure <= self.limit


def times(limit: float) -> Goal:
    """The goal of a ratio."""
    return Goal(limit, of_ratio=True)


@dataclass(frozen=True)
class Row:
    """One line of a table: the figures of the rounds, and those of the base in the same rounds."""

    what: str
    values: list[float] = field(default_factory=list)
    unit: str = "us"
    base: list[float] = field(default_factory=list)
    base_name: str = ""
    goal: Goal | None = None
    judged: list[float] = field(default_factory=list)
    """The figures that the goal is about, if these are neither the values nor the ratios."""
    note: str = ""
    """Facts that belong to the figure, or the reason why there is none."""

    @property
    def ratios(self) -> list[float]:
        """The ratio of each round to its base. A base at or below zero is noise: none if half of the bases are."""
        pairs = zip(self.values, self.base or [0.0] * len(self.values), strict=True)
        found = [value / base for value, base in pairs if base > 0]
        return found if 2 * len(found) > len(self.base) else []

    @property
    def lost(self) -> str:
        """The number of rounds whose base was lost in noise, in words."""
        rounds = sum(base <= 0 for base in self.base)
        return f"the base was lost in noise in {rounds} of {len(self.base)} rounds" if rounds else ""

    @property
    def met(self) -> bool | None:
        """True if the goal is reached; None without a goal or a figure."""
        figures = self._judged
        return self.goal.met(statistics.median(figures)) if self.goal and figures else None

    @property
    def certain(self) -> bool:
        """True if both quartiles are on the same side of the goal."""
        figures = self._judged
        if self.goal is None or len(figures) < 2:
            return True
        low, _, high = statistics.quantiles(figures, n=4)
        return self.goal.met(low) == self.goal.met(high)

    @property
    def _judged(self) -> list[float]:
        return self.judged or (self.ratios if self.goal and self.goal.of_ratio else self.values)


@dataclass(frozen=True)
class Section:
    """A table, and the words that say what was measured."""

    title: str
    about: str
    rows: list[Row]


def measure(function: Callable[[], object], calls: int, clock: Callable[[], float] = thread_time) -> float:
    """Microseconds of processor time for a call. The garbage collector runs before, not within."""
    return measure_each(lambda _: function(), range(calls), clock)


def measure_each(
    function: Callable[[Any], object], given: Collection[Any], clock: Callable[[], float] = thread_time
) -> float:
    """As ``measure``, with an argument for each call, which is made before."""
    gc.collect()
    gc.disable()
    try:
        started = clock()
        for one in given:
            function(one)
        return (clock() - started) / len(given) * 1e6
    finally:
        gc.enable()


def interleaved(cases: Mapping[str, Callable[[], float]], rounds: int) -> Rounds:
    """Let each case measure itself once a round. Every round begins with another case, and the first does not count."""
    names = list(cases)
    found: Rounds = {name: [] for name in names}
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            figure = cases[name]()
            if number:
                found[name].append(figure)
    return found


def compared(found: Rounds, base: str, base_name: str, goals: Mapping[str, Goal] | None = None) -> list[Row]:
    """Return a row for each case; all but the base have their ratio to it."""
    return [
        Row(
            name,
            values,
            base=[] if name == base else found[base],
            base_name="" if name == base else base_name,
            goal=(goals or {}).get(name),
        )
        for name, values in found.items()
    ]


# --- reporting ---------------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Write a figure with three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")


def spread(values: Sequence[float]) -> str:
    """Write a median, and the quartiles if there are some rounds."""
    median = number(statistics.median(values))
    if len(values) < 4:
        return median
    low, _, high = statistics.quantiles(values, n=4)
    return f"{median} ({number(low)}{'-' if low >= 0 else ' to '}{number(high)})"


HEAD = ("what", "unit", "least", "median (quartiles)", "ratio (quartiles)", "goal", "met", "note")


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row."""
    goal = ""
    if row.goal:
        limit = f"{'>=' if row.goal.at_least else '<='} {number(row.goal.limit)}{' x' if row.goal.of_ratio else ''}"
        goal = row.goal.words or limit
    met = {None: "not measured" if goal else "", True: "yes", False: "**no**"}[row.met]
    met += "" if row.certain else ", uncertain"
    note = "; ".join(filter(None, (row.note, row.lost)))
    if not row.values:
        return row.what, "", "", "", "", goal, met, note
    least = number(min(row.values)) if len(row.values) > 1 else ""
    ratio = f"{spread(row.ratios)} x {row.base_name}" if row.ratios else ""
    return row.what, row.unit, least, spread(row.values), ratio, goal, met, note


def plain(section: Section) -> str:
    """Return the section for a terminal."""
    lines = [HEAD, *map(cells, section.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    table = "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return f"\n{section.title}\n{section.about}\n\n{table}"


def progress(text: str) -> None:
    """Say what is measured, where it does not mix with the figures."""
    print(text, file=sys.stderr, flush=True)


def dump(sections: Iterable[Section]) -> str:
    """Return the sections as JSON."""
    return json.dumps([asdict(section) for section in sections])


def load(text: str) -> list[Section]:
    """Return the sections that were written by ``dump``."""
    return [
        Section(one["title"], one["about"], [Row(**{**row, "goal": _goal(row["goal"])}) for row in one["rows"]])
        for one in json.loads(text)
    ]


def _goal(given: dict[str, Any] | None) -> Goal | None:
    return Goal(**given) if given else None


def main(sections: Callable[..., Iterable[Section]], about: str | None) -> int:
    """Run one benchmark as a program. The exit status is 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="print the figures of all rounds as JSON, and exit with 0")
    options = parser.parse_args()
    measured = list(sections(quick=options.quick))
    if options.json:
        print(dump(measured))
        return 0
    print("\n".join(map(plain, measured)))
    return int(any(row.met is False for section in measured for row in section.rows))
