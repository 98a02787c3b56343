"""The figures of docs/accuracy.md: `python -m tests.engine.judges.measure [--reference] [folder]`."""

from __future__ import annotations

import argparse
import collections
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.engine.judges import corpus
from tests.engine.reference.judge import NaiveTurn

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.judges.corpus import Judged, Replayed


class Figures(NamedTuple):
    """The measured figures of some runs."""

    runs: int
    successful: int
    nudged: int
    refused: int
    withheld: list[tuple[str, corpus.Tripped]]
    withheld_anywhere: list[tuple[str, corpus.Tripped]]
    modes: collections.Counter[tuple[str, str]]


class Verdicts(NamedTuple):
    """The outcomes of the labelled repeats."""

    loops: int
    missed: list[str]
    loops_refused: int
    legit: int
    legit_refused: list[str]


def reference_turn(clock: Callable[[], float]) -> Judged:
    """A turn of the naive reference."""
    return NaiveTurn(clock=clock, enforce=False)


def guard_turn(clock: Callable[[], float]) -> Judged:
    """A turn of the guard itself."""
    from tests.engine.judges.real import ObservedTurn

    return ObservedTurn(clock=clock)


def figures(replayed: list[Replayed]) -> Figures:
    """The figures of these runs."""
    good = [r for r in replayed if r.run["success"]]
    modes = collections.Counter((t.mode, t.action) for r in replayed for t in r.trips)
    lost = [(r.run_id, t) for r in replayed for t in r.refusals if corpus.withheld(r.run, t)]
    names = {r.run_id for r in good}
    return Figures(
        runs=len(replayed),
        successful=len(good),
        nudged=sum(any(t.action == "nudge" for t in r.trips) for r in good),
        refused=sum(bool(r.refusals) for r in good),
        withheld=[found for found in lost if found[0] in names],
        withheld_anywhere=lost,
        modes=modes,
    )


def verdicts(replayed: list[Replayed], labels: list[dict[str, Any]]) -> Verdicts:
    """The outcomes of the labelled repeats in these runs."""
    by_id = {r.run_id: r for r in replayed}
    here = [(label, by_id[label["run_id"]]) for label in labels if label["run_id"] in by_id]
    loops = [pair for pair in here if pair[0]["label"] == "loop"]
    legit = [pair for pair in here if pair[0]["label"] == "legit"]
    any_action = ("nudge", *corpus.REFUSALS)
    return Verdicts(
        loops=len(loops),
        missed=[label["run_id"] for label, run in loops if not corpus.caught(label, run, any_action)],
        loops_refused=sum(corpus.caught(label, run, corpus.REFUSALS) for label, run in loops),
        legit=len(legit),
        legit_refused=[label["run_id"] for label, run in legit if corpus.caught(label, run, corpus.REFUSALS)],
    )


def replay_all(folder: Path, new_turn: Callable[[Callable[[], float]], Judged]) -> dict[str, list[Replayed]]:
    """Replay every corpus in the folder."""
    return {
        path.name.split(".")[0]: [corpus.replay(run, new_turn) for run in corpus.runs(path)]
        for path in corpus.files(folder)
    }


def table(replayed: dict[str, list[Replayed]], labels: list[dict[str, Any]]) -> str:
    """The figures as a Markdown table, one row a corpus."""
    head = (
        "| corpus | runs | refusals on successful runs that withheld something new | loops nudged or refused | refused "
        "| legitimate repeats refused | successful runs nudged | successful runs refused |\n" + "| --- " * 8 + "|"
    )
    everything = [run for found in replayed.values() for run in found]
    return "\n".join([head, *(row(name, found, labels) for name, found in [*replayed.items(), ("all", everything)])])


def row(name: str, replayed: list[Replayed], labels: list[dict[str, Any]]) -> str:
    """One corpus as a row of the table."""
    measured, judged = figures(replayed), verdicts(replayed, labels)
    share = f"{measured.nudged} of {measured.successful} ({measured.nudged / max(1, measured.successful):.1%})"
    cells = (
        name,
        measured.runs,
        len(measured.withheld),
        f"{judged.loops - len(judged.missed)} of {judged.loops}",
        f"{judged.loops_refused} of {judged.loops}",
        f"{len(judged.legit_refused)} of {judged.legit}",
        share,
        measured.refused,
    )
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def main() -> None:
    """Print the table and every case that is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=corpus.CORPORA)
    parser.add_argument("--reference", action="store_true", help="measure the naive reference, not the guard")
    asked = parser.parse_args()
    replayed = replay_all(asked.folder, reference_turn if asked.reference else guard_turn)
    labels = corpus.labels(asked.folder)
    print(table(replayed, labels))
    everything = [run for found in replayed.values() for run in found]
    measured, judged = figures(everything), verdicts(everything, labels)
    print("\nmodes:", ", ".join(f"{mode} {action} {count}" for (mode, action), count in measured.modes.most_common()))
    print("withheld something new on any run:", measured.withheld_anywhere or "never")
    print("labelled loops missed:", judged.missed or "none")
    print("labelled legitimate repeats refused:", judged.legit_refused or "none")


if __name__ == "__main__":
    main()
