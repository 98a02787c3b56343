"""Take out each number and special case of the rule once, and measure: python -m benchmarks.ablation [-v].

A setting of the policy is taken out by a policy with its neutral value, a constant by a patch of the one place in the
package that has it. Each is measured in a process of its own, so that no patch outlives its measurement.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.accuracy import recorded
from benchmarks.accuracy.markdown import table
from benchmarks.exam import families, play, shared
from benchmarks.exam.names import NAMINGS
from benchmarks.parts import PARTS
from otel_loopguard import Policy
from otel_loopguard.cli.replay.judge import PolicyJudge
from tests.core.judges import corpus, measure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.exam.trace import Trace


class Measured(NamedTuple):
    """The figures of one rule."""

    exams: dict[str, play.Figures]
    nudged: int
    """Successful recorded runs that were nudged."""
    refused: int
    """Successful recorded runs that were refused a call."""
    withheld: int
    """Refusals on successful recorded runs that withheld something new."""
    loops: int
    """Labelled loops that were nudged or refused."""
    legit: int
    """Labelled legitimate repeats that were refused."""


class Material(NamedTuple):
    """The traces and recorded runs on which each rule is measured."""

    exams: dict[str, list[Trace]]
    runs: list[dict[str, Any]]
    labels: list[dict[str, Any]]


def material(namings: Iterable[str], seeds: Iterable[int]) -> Material:
    """Draw the examinations and read the recorded runs, as far as they are here."""
    exams = {"exam": families.draw(namings, seeds), "second": shared.draw(namings, seeds)}
    runs = [run for path in corpus.files() for run in corpus.runs(path)]
    return Material({name: traces for name, traces in exams.items() if traces}, runs, corpus.labels() if runs else [])


def measured(policy: Policy, on: Material) -> Measured:
    """Measure a policy on all of it."""
    exams = {
        name: play.figures(play.rows(traces, lambda: play.GuardJudge(policy))) for name, traces in on.exams.items()
    }
    judge = PolicyJudge(policy)
    replayed = [recorded.replay(run, judge) for run in on.runs]
    figures, verdicts = measure.figures(replayed), measure.verdicts(replayed, on.labels)
    loops = verdicts.loops - len(verdicts.missed)
    return Measured(exams, figures.nudged, figures.refused, len(figures.withheld), loops, len(verdicts.legit_refused))


_material: Material | None = None
"""The traces and runs that the processes inherit."""


def _measure(number: int) -> Measured:
    """Measure without the part of this number; with all parts if it is 0."""
    assert _material is not None
    if not number:
        return measured(Policy(), _material)
    part = PARTS[number - 1]
    for edit in part.edits:
        edit.apply()
    return measured(part.policy, _material)


def run(on: Material, processes: int | None = None) -> tuple[Measured, list[Measured]]:
    """Measure the rule as it is, and without each of its parts."""
    global _material  # noqa: PLW0603 - a forked process inherits it; to send it would take longer than to measure
    _material = on
    context = multiprocessing.get_context("fork")
    with context.Pool(processes or os.cpu_count(), maxtasksperchild=1) as pool:
        whole, *found = pool.map(_measure, range(len(PARTS) + 1), chunksize=1)
    return whole, found


HEAD = """## The weight of each part

Each number and special case of the rule is taken out once, and all else measured again: on both examinations, under
natural and opaque names, and on the recorded runs. The cells are the differences to the whole rule, in runs; an empty
cell is none. A part with an empty row is there for a promise that other tests hold.
"""


def section() -> str:
    """Return the section of docs/accuracy.md."""
    whole, found = run(material(("natural", "opaque"), range(100, 102)))
    return "\n".join([HEAD, as_table(whole, found)])


def as_table(whole: Measured, found: list[Measured]) -> str:
    """Compare the figures without each part with those of the whole rule."""
    head = ["left out", "the rule with it"]
    for name in whole.exams:
        head += [f"{name}: stopped", "missed", "in time", "told in time", "refused", "ended", "nudged"]
    head += ["recorded: successful refused", "withheld", "successful nudged", "loops told", "legitimate refused"]
    lines = [["(the whole rule)", "", *map(str, _numbers(whole))]]
    for part, without in zip(PARTS, found, strict=True):
        differences = [after - before for before, after in zip(_numbers(whole), _numbers(without), strict=True)]
        lines.append([part.name, part.carries, *(f"{number:+}" if number else "" for number in differences)])
    return table(head, lines)


def _numbers(of: Measured) -> list[int]:
    numbers = []
    for exam in of.exams.values():
        numbers += [exam.stopped, exam.missed, exam.in_time, exam.told, exam.refused, exam.ended, exam.nudged]
    return [*numbers, of.refused, of.withheld, of.nudged, of.loops, of.legit]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description="Weigh the parts of the rule.")
    parser.add_argument("seeds", nargs="?", type=int, default=3)
    parser.add_argument("--only", help="only parts whose name has this word")
    options = parser.parse_args()
    if options.only:
        PARTS[:] = [part for part in PARTS if options.only in part.name]
    if not shared.present():
        print(f"no second examination in {shared.FOLDER}: measured on our own alone", file=sys.stderr)
    on = material(NAMINGS, range(options.seeds))
    print(as_table(*run(on)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
