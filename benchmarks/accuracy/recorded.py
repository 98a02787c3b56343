"""Figures of the policies on runs of real agents, compared with the recorded results and with labels made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.accuracy.markdown import share, table
from otel_loopguard.cli.replay import runs as reading
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.policy_files.load import load_preset
from tests.engine.judges import corpus, measure

if TYPE_CHECKING:
    from collections import Counter

POLICIES = ("default", "repeat_hint", "local_reads", "turn_nudge", "typed_window", "chat_turn")

REAL = """## Runs of real agents

{numbers}: tau-bench (customer service), question answering with Search and Lookup, and real MCP servers behind a
gateway. The runs are not part of this project. They are replayed as by `otel-loopguard replay`: calls recorded after a
refusal count as if they had run, so every refusal is counted, not only the first. The other presets judge arguments
only, like the systems that they reproduce, with the limits of those systems.
"""
WITHHELD = """
A refusal *withheld news* if the recorded result of the refused call is new: this call had not returned it before in its
turn, compared by hash, with timestamps, ids and durations masked.

Trips of the default policy:
"""


class Row(NamedTuple):
    """The decisions of one policy on some runs."""

    refused: list[corpus.Replayed]
    replayed: list[corpus.Replayed]
    verdicts: measure.Verdicts
    figures: measure.Figures


def replay(run: dict[str, Any], judge: PolicyJudge) -> corpus.Replayed:
    """Replay one run, with its trips in the terms of the judges."""
    found = reading.replay(reading.read(run), judge)
    return corpus.Replayed(run, [corpus.Tripped(t.turn, t.call, t.mode, str(t.action)) for t in found])


def measured(runs: list[dict[str, Any]], policy: str, labels: list[dict[str, Any]]) -> Row:
    """Measure one policy on these runs."""
    judge = PolicyJudge(load_preset(policy).checked())
    return counted([replay(run, judge) for run in runs], labels)


def counted(replayed: list[corpus.Replayed], labels: list[dict[str, Any]]) -> Row:
    """Count the outcomes of replayed runs."""
    refused = [one for one in replayed if one.refusals]
    return Row(refused, replayed, measure.verdicts(replayed, labels), measure.figures(replayed))


def by_policy(runs: list[dict[str, Any]], labels: list[dict[str, Any]]) -> str:
    """Compare the policies in a table."""
    head = ["policy", "successful runs refused a call", "failed runs refused a call", "refusals that withheld news"]
    head += ["labelled loops nudged or refused", "labelled legitimate repeats refused", "successful runs nudged"]
    rows = []
    for name in POLICIES:
        row = measured(runs, name, labels)
        good = sum(bool(run["success"]) for run in runs)
        bad = sum(run["success"] is False for run in runs)
        refusals = sum(len(one.refusals) for one in row.replayed)
        rows.append([
            f"`{name}`",
            share(sum(bool(one.run["success"]) for one in row.refused), good),
            share(sum(one.run["success"] is False for one in row.refused), bad),
            f"{len(row.figures.withheld_anywhere)} of {refusals}; on successful runs {len(row.figures.withheld)}",
            f"{row.verdicts.loops - len(row.verdicts.missed)} of {row.verdicts.loops}",
            f"{len(row.verdicts.legit_refused)} of {row.verdicts.legit}",
            share(row.figures.nudged, good),
        ])  # fmt: skip
    return table(head, rows)


def by_mode(runs: list[dict[str, Any]]) -> str:
    """The default policy's trips."""
    counted: Counter[tuple[str, str]] = measured(runs, "default", []).figures.modes
    modes = dict.fromkeys(mode for (mode, _), _ in counted.most_common())
    actions = ("nudge", "block", "abort")
    return table(["mode", *actions], [[f"`{mode}`", *(counted[mode, action] for action in actions)] for mode in modes])


def section(runs: list[dict[str, Any]], labels: list[dict[str, Any]]) -> str:
    """Return the section of the page."""
    calls = sum(len(turn["calls"]) for run in runs for turn in run["turns"])
    numbers = f"{len(runs)} runs, {calls:,} calls, {len(labels)} repeats labelled by hand"
    return "\n".join([REAL.format(numbers=numbers), by_policy(runs, labels), WITHHELD, by_mode(runs)])
