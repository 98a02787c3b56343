"""Take out each number and special case of the rule once, and measure: python -m benchmarks.ablation [-v].

A setting of the policy is taken out by a policy with its neutral value, a constant by a patch of the one place in the
package that has it. Each is measured in a process of its own, so that no patch outlives its measurement.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.accuracy import recorded
from benchmarks.accuracy.markdown import table
from benchmarks.exam import families, play, shared
from benchmarks.exam.names import NAMINGS
from benchmarks.parts import PARTS, Edit
from otel_loopguard import Policy
from otel_loopguard.cli.replay.judge import PolicyJudge
from tests.engine.judges import corpus, measure, runner, traces
from tests.engine.judges.real import EnforcedTurn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.exam.trace import Trace
    from benchmarks.parts import Part

    Figures = dict[str, dict[str, int]]
    """The figures of one rule by material, each with its name."""


class Material(NamedTuple):
    """The traces and recorded runs on which each rule is measured."""

    exams: dict[str, list[Trace]]
    runs: list[dict[str, Any]]
    labels: list[dict[str, Any]]


def material(namings: Iterable[str], seeds: Iterable[int]) -> Material:
    """Draw the examinations and read the recorded runs, as far as they are here."""
    exams = {"exam": families.draw(namings, seeds), "second": shared.draw(namings, seeds)}
    runs = [run for path in corpus.files() for run in corpus.runs(path)]
    return Material({name: drawn for name, drawn in exams.items() if drawn}, runs, corpus.labels() if runs else [])


def measured(policy: Policy, on: Material) -> Figures:
    """Measure a policy on all of it."""
    figures = {
        name: examined(play.figures(play.rows(drawn, lambda: play.GuardJudge(policy))))
        for name, drawn in on.exams.items()
    }
    figures["traces of the tests"] = tested(policy)
    if on.runs:
        judge = PolicyJudge(policy)
        replayed = [recorded.replay(run, judge) for run in on.runs]
        runs, verdicts = measure.figures(replayed), measure.verdicts(replayed, on.labels)
        figures["recorded runs"] = {
            "successful refused": runs.refused,
            "news withheld": len(runs.withheld),
            "successful nudged": runs.nudged,
            "loops told": verdicts.loops - len(verdicts.missed),
            "legitimate repeats refused": len(verdicts.legit_refused),
        }
    return figures


def tested(policy: Policy) -> dict[str, int]:
    """Count the kinds of traces in the tests that are stopped, and those refused a call, under two namings."""

    def turn(drawn: traces.Trace, clock: Callable[[], float]) -> corpus.Judged:
        return EnforcedTurn(drawn.contracts, clock, modes=policy.modes, abort_after=policy.abort_after)

    counts = {"stopped": 0, "refused": 0}
    for stuck, name in ((True, "stopped"), (False, "refused")):
        for kind in traces.kinds(stuck=stuck):
            for naming in ("named", "opaque"):
                drawn = traces.trace(kind, naming, 0)
                counts[name] += bool(runner.run(drawn, turn).refused)
    return counts


def examined(found: play.Figures) -> dict[str, int]:
    """Name the figures of an examination."""
    names = ("stopped", "missed", "in_time", "told", "refused", "ended", "nudged")
    return {name.replace("_", " "): getattr(found, name) for name in names}


_material: Material | None = None
"""The traces and runs that the processes inherit."""


def _measure(part: Part | None) -> Figures:
    """Measure without this part; with all parts if it is None."""
    assert _material is not None
    if part is None:
        return measured(Policy(), _material)
    for edit in part.edits:
        edit.apply()
    return measured(part.policy, _material)


def _measure_place(place: int) -> Figures:
    return _measure(PARTS[place] if place >= 0 else None)


def rows(on: Material, parts: Iterable[Part]) -> Iterator[list[str]]:
    """Measure the rule as it is, and without each of these parts; yield the rows of the table."""
    global _material
    _material, parts = on, list(parts)
    assert all(edit.changed for part in parts for edit in part.edits if isinstance(edit, Edit))  # else after minutes
    with multiprocessing.get_context("fork").Pool(os.cpu_count(), maxtasksperchild=1) as pool:
        found = pool.imap(_measure_place, [-1, *map(PARTS.index, parts)])
        whole = next(found)
        yield ["nothing", "the figures", *(_listed(figures, "{}") for figures in whole.values())]
        for part, without in zip(parts, found, strict=True):
            yield _row(whole, part, without)


def _row(whole: Figures, part: Part, without: Figures) -> list[str]:
    cells = []
    for material_name, before in whole.items():
        differences = {name: without[material_name][name] - number for name, number in before.items()}
        cells.append(_listed({name: number for name, number in differences.items() if number}, "{:+}"))
    return [part.name, part.carries, *cells]


def _listed(figures: dict[str, int], form: str) -> str:
    return ", ".join(f"{name} {form.format(number)}" for name, number in figures.items())


HEAD = """## The weight of each part

Each number and special case of the rule is taken out once, and all else measured again: on both examinations and the
traces of the tests, under natural and opaque names, and on the recorded runs. The cells are the differences to the
whole rule, in runs; an empty cell is none. A part with an empty row rests on a promise, a cost or a report of users
that these traces do not show.
"""
ON_THE_PAGE = ("natural", "opaque"), range(100, 101)
COLUMNS = [
    "left out",
    "the rule with it",
    "`benchmarks/exam`",
    "second examination",
    "traces of the tests",
    "recorded runs",
]


def section() -> str:
    """Return the section of docs/accuracy.md."""
    return "\n".join([HEAD, table(COLUMNS, list(rows(material(*ON_THE_PAGE), PARTS)))])


def differs(page: str, count: int) -> bool:
    """Compare the rows of some parts, drawn anew each time, with those of the page; print those that differ."""
    drawn = random.sample(PARTS, count)
    missing = [row for row in rows(material(*ON_THE_PAGE), drawn) if f"| {' | '.join(row)} |" not in page]
    for row in missing:
        print("not on the page:", " | ".join(row), file=sys.stderr)
    return bool(missing)


def main() -> int:
    """Print the table, or compare a part of it with the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description="Weigh the parts of the rule.")
    parser.add_argument("seeds", nargs="?", type=int, default=3)
    parser.add_argument("--only", default="", help="only parts whose name or sentence has this text")
    parser.add_argument(
        "--check", type=int, metavar="N", help="compare N parts with docs/accuracy.md; 1 if one differs"
    )
    options = parser.parse_args()
    if options.check:
        return differs((Path(__file__).parents[1] / "docs" / "accuracy.md").read_text("utf-8"), options.check)
    if not shared.present():
        print(f"no second examination in {shared.FOLDER}: measured on our own alone", file=sys.stderr)
    parts = [part for part in PARTS if options.only in f"{part.name} {part.carries}"]
    on = material(NAMINGS, range(options.seeds))
    print(table(["left out", "the rule with it", *on.exams, "traces of the tests", "recorded runs"], []))
    for row in rows(on, parts):
        print(f"| {' | '.join(row)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
