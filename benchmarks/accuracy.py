"""Write docs/accuracy.md: python -m benchmarks.accuracy [--corpora FOLDER] [--check].

All figures are measured: the decisions of the policies on runs of real agents, compared with the recorded results and
with labels made by hand, and on canonical traces under four naming schemes of tools.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.cli.replay import runs as reading
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.core.policy.load import load_preset
from tests.core.judges import corpus, measure, runner, traces
from tests.core.judges.real import EnforcedTurn

if TYPE_CHECKING:
    from collections import Counter

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
POLICIES = ("default", "repeat_hint", "local_reads", "turn_nudge", "typed_window", "chat_turn")
SEEDS = range(5)
NAMED = {"named": "as named", "prefixed": "prefixed", "camel": "camelCase", "opaque": "opaque (`tool_71`)"}

HEAD = """# Accuracy

`python -m benchmarks.accuracy` measures and writes this page; nothing is written by hand. The runs are not part of this
project: tau-bench (customer service), question answering with Search and Lookup, and real MCP servers behind a gateway.
They are replayed as by `otel-loopguard replay`: calls recorded after a refusal count as if they had run, so every
refusal is counted, not only the first.

Most failed runs fail for other reasons than loops. There are no coding runs among these: in coding, identical calls are
mostly legitimate.
"""

REAL = """## Runs of real agents

{numbers}. The other presets judge arguments only, like the systems that
they reproduce, with the limits of those systems.
"""
WITHHELD = """
A refusal *withheld news* if the recorded result of the refused call is new: this call had not returned it before in its
turn, compared by hash, with timestamps, ids and durations masked. Those of the default policy are of `error_repeat`,
which judges untried calls: the refusal states that the same call, made once more, runs.

Trips of the default policy:
"""
CANONICAL = """
## Canonical traces

Drawn from {seeds} seeds. A kind counts as stopped if it was so under every seed, and as refused if it was so
under any.
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
    replayed = [replay(run, judge) for run in runs]
    refused = [one for one in replayed if one.refusals]
    return Row(refused, replayed, measure.verdicts(replayed, labels), measure.figures(replayed))


def share(part: int, whole: int) -> str:
    """Format a count, the whole, and the percentage."""
    return f"{part} of {whole} ({part / whole:.1%})" if whole else f"{part} of {whole}"


def table(head: list[str], rows: list[list[Any]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


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


def canonical() -> str:
    """Count stuck traces that are stopped, and legitimate ones that are refused, by naming scheme."""
    rows = []
    for naming, shown in NAMED.items():
        row = [shown]
        for stuck in (True, False):
            names = traces.kinds(stuck=stuck, canonical=True)
            refused = [
                all(bool(runner.run(traces.trace(name, naming, seed), guarded).refused) for seed in SEEDS)
                if stuck
                else any(bool(runner.run(traces.trace(name, naming, seed), guarded).refused) for seed in SEEDS)
                for name in names
            ]
            row.append(f"{sum(refused)} of {len(names)}")
        rows.append(row)
    return table(["tools", "stuck, stopped", "legitimate, refused"], rows)


def guarded(trace: traces.Trace, clock: Any) -> EnforcedTurn:
    """A turn of the guard under the default policy and the trace's contracts."""
    return EnforcedTurn(trace.contracts, clock)


def page(folder: Path) -> str:
    """Return the whole page."""
    runs = [run for path in corpus.files(folder) for run in corpus.runs(path)]
    labels = corpus.labels(folder)
    calls = sum(len(turn["calls"]) for run in runs for turn in run["turns"])
    numbers = f"{len(runs)} runs, {calls:,} calls, {len(labels)} repeats labelled by hand"
    parts = (HEAD, REAL.format(numbers=numbers), by_policy(runs, labels), WITHHELD, by_mode(runs))
    return "\n".join([*parts, CANONICAL.format(seeds=len(SEEDS)), canonical(), ""])


def main() -> int:
    """Write the page, or compare it with the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", type=Path, default=corpus.CORPORA)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if the page would change")
    options = parser.parse_args()
    if not corpus.files(options.corpora):
        print(f"no corpora in {options.corpora}", file=sys.stderr)
        return 2
    text = page(options.corpora)
    if options.check:
        return int(text != PAGE.read_text("utf-8"))
    PAGE.write_text(text, "utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
