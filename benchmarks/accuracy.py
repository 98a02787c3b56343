"""Measure the decisions, and write docs/accuracy.md: python -m benchmarks.accuracy [--check] [--corpora FOLDER].

The recorded runs and the second examination are not part of this project. Without them, in ../shared, nothing is
measured.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import peers
from benchmarks.exam import families, play, shared
from benchmarks.exam.names import NAMINGS
from benchmarks.markdown import share, table
from otel_loopguard import Policy
from otel_loopguard.cli.replay import runs as reading
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.policy_files.load import load_preset
from tests.engine.judges import corpus, measure, runner, traces
from tests.engine.judges.real import EnforcedTurn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.exam.trace import Trace
    from otel_loopguard import Outcome, ToolCall
    from tests.engine.judges.corpus import Judged
    from tests.engine.judges.real import Told

    NewTurn = Callable[[traces.Trace, Callable[[], float]], Judged]
    Run = dict[str, Any]

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"

INTRODUCTION = """# Accuracy

`python -m benchmarks.accuracy` measures and writes this page; nothing is written by hand.

## What this page cannot show

- **No error rates of practice.** The traces of the examinations and the canonical traces are picked to be hard, and
  drawn by people who know the rule. Their shares compare versions and rules with each other. They do not tell how
  often a working agent is refused a call in production: measure that with `otel-loopguard replay` on recorded runs, or
  with `action = "observe"`.
- **No reactions.** Recorded and drawn agents do not read nudges and refusals. A real model may obey, or find another
  way to loop.
- **No coding runs.** There are none among the recorded runs. In coding, identical calls are mostly legitimate. Only
  drawn traces have them.
- **Few labels.** {labels} repeats are labelled by hand. Most failed runs fail for other reasons than loops, so that the
  share of failed runs that are refused a call says little.
- **No other system as it runs.** The rules of others are restated from their sources, without the parts that read more
  than tool calls, and with their own lists of tool names, which fit their own tools.

"""


def page(folder: Path) -> str:
    """Measure, and return the page."""
    runs = [run for path in corpus.files(folder) for run in corpus.runs(path)]
    labels = corpus.labels(folder)
    drawn = drawn_traces()
    sections = (
        INTRODUCTION.format(labels=len(labels)).rstrip(),
        of_runs(runs, labels),
        of_canonical_traces(),
        of_examinations(drawn),
        of_peers(drawn, runs, labels),
    )
    return "\n\n".join(sections) + "\n"


# --- recorded runs -----------------------------------------------------------------------------------------------

POLICIES = ("default", "repeat_hint", "local_reads", "turn_nudge", "typed_window", "chat_turn")

RUNS = """## Runs of real agents

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


class Decided(NamedTuple):
    """The decisions of one policy on some runs."""

    refused: list[corpus.Replayed]
    replayed: list[corpus.Replayed]
    verdicts: measure.Verdicts
    figures: measure.Figures


def replay(run: Run, judge: PolicyJudge) -> corpus.Replayed:
    """Replay one run, with its trips in the terms of the judges."""
    found = reading.replay(reading.read(run), judge)
    return corpus.Replayed(run, [corpus.Tripped(t.turn, t.call, t.mode, str(t.action)) for t in found])


def measured(runs: list[Run], policy: str, labels: list[Run]) -> Decided:
    """Measure one policy on these runs."""
    judge = PolicyJudge(load_preset(policy).checked())
    return counted([replay(run, judge) for run in runs], labels)


def counted(replayed: list[corpus.Replayed], labels: list[Run]) -> Decided:
    """Count the outcomes of replayed runs."""
    refused = [one for one in replayed if one.refusals]
    return Decided(refused, replayed, measure.verdicts(replayed, labels), measure.figures(replayed))


def by_policy(runs: list[Run], labels: list[Run]) -> str:
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


def by_mode(runs: list[Run]) -> str:
    """The default policy's trips."""
    trips: Counter[tuple[str, str]] = measured(runs, "default", []).figures.modes
    modes = dict.fromkeys(mode for (mode, _), _ in trips.most_common())
    actions = ("nudge", "block", "abort")
    return table(["mode", *actions], [[f"`{mode}`", *(trips[mode, action] for action in actions)] for mode in modes])


def of_runs(runs: list[Run], labels: list[Run]) -> str:
    """Return the section of the page."""
    calls = sum(len(turn["calls"]) for run in runs for turn in run["turns"])
    numbers = f"{len(runs)} runs, {calls:,} calls, {len(labels)} repeats labelled by hand"
    return "\n".join([RUNS.format(numbers=numbers), by_policy(runs, labels), WITHHELD, by_mode(runs)])


# --- canonical traces --------------------------------------------------------------------------------------------

CANONICAL_SEEDS = range(5)
NAMED = {"named": "as named", "prefixed": "prefixed", "camel": "camelCase", "opaque": "opaque (`tool_71`)"}

CANONICAL = """## Canonical traces

Drawn from {seeds} seeds. A kind counts as stopped if it was so under every seed, and as refused if it was so under any.
"""


def of_canonical_traces() -> str:
    """Return the section of the page."""
    rows = [[shown, *canonical_counts(naming)] for naming, shown in NAMED.items()]
    return "\n".join(
        [CANONICAL.format(seeds=len(CANONICAL_SEEDS)), table(["tools", "stuck, stopped", "legitimate, refused"], rows)]
    )


def canonical_counts(naming: str, new_turn: NewTurn | None = None) -> list[str]:
    """Count the stuck kinds that are stopped, and the legitimate ones that are refused a call."""
    found = []
    for stuck, of_all in ((True, all), (False, any)):
        names = traces.kinds(stuck=stuck, canonical=True)
        refused = [
            of_all(
                bool(runner.run(traces.trace(name, naming, seed), new_turn or guarded).refused)
                for seed in CANONICAL_SEEDS
            )
            for name in names
        ]
        found.append(f"{sum(refused)} of {len(names)}")
    return found


def guarded(trace: traces.Trace, clock: Callable[[], float]) -> Judged:
    """A turn of the guard under the default policy and the trace's contracts."""
    return EnforcedTurn(trace.contracts, clock)


# --- examinations ------------------------------------------------------------------------------------------------

SEEDS = range(100, 103)
"""The rule was written with lower ones in view."""

EXAMINATIONS = """## Examinations

Traces of agents that work and of agents that are stuck, drawn from practice as of 2025 and 2026. Tools are named in
six ways: as frameworks and servers name them, prefixed by a server, in camelCase, as MCP clients do, opaque (`f17`),
and in other languages. Each call has its times. In 60 % of the runs the framework flags errors, in the others an
error is a text. Each stuck kind has two marks: the call at which a careful human would have told the model at the
latest, and the call that would have been refused at the latest (*in time*); for some kinds it is enough to be told.
There are {seeds} seeds for each kind and naming, none of which was used to write the rule.

`benchmarks/exam` has {stuck} kinds of stuck agents and {legit} that work; `python -m benchmarks.exam -v` plays them.
They were drawn apart from the rule. When they were first played, 6 % of the working runs were refused a call, 82 % of
the stuck were stopped and 5 % missed. Part of what they showed was then corrected, so they are not unseen any more.
"""
OTHER = """
The second examination is not part of this project. It was drawn by the designers of the rule. Its kinds were known when
the rule was written, these seeds were not.
"""
WRONG = """
Kinds of `benchmarks/exam` with another outcome than a careful human wants:
"""
OPEN = """
## Undecidable without a declaration

These kinds of `benchmarks/exam` are in none of the figures above: the calls do not show the fact that decides. `kind =
"step"`, `once`, `cap`, a poll's `interval` or the model's messages tell it; see [policy.md](policy.md).
"""


class Drawn(NamedTuple):
    """The traces of both examinations."""

    own: list[Trace]
    other: list[Trace]

    def under(self, namings: Iterable[str]) -> Drawn:
        """Return the traces under these namings."""
        own, other = ([one for one in drawn if one.naming in namings] for drawn in self)
        return Drawn(own, other)


def drawn_traces() -> Drawn:
    """Draw both examinations."""
    return Drawn(families.draw(NAMINGS, SEEDS), shared.draw(NAMINGS, SEEDS))


def of_examinations(drawn: Drawn) -> str:
    """Return the section of the page."""
    own, other = play.rows(drawn.own), play.rows(drawn.other)
    decidable = [family for family in families.ALL.values() if not family.undecidable]
    stuck = sum(family.stuck for family in decidable)
    parts = [EXAMINATIONS.format(seeds=len(SEEDS), stuck=stuck, legit=len(decidable) - stuck), by_naming(own)]
    parts += [OTHER, by_naming(other), WRONG, wrong(own), OPEN, undecided(own)]
    return "\n".join(parts)


def by_naming(rows: list[play.Row]) -> str:
    """Count the outcomes by naming."""
    head = ["tools", "stuck, stopped", "stopped in time", "told in time", "missed"]
    head += ["working, refused a call", "ended", "nudged"]
    lines = []
    for naming in NAMINGS:
        found = play.figures(row for row in rows if row.naming == naming)
        lines.append([
            naming,
            share(found.stopped, found.stuck),
            share(found.in_time, found.needed),
            share(found.told, found.stuck),
            share(found.missed, found.stuck),
            share(found.refused, found.legit),
            found.ended,
            share(found.nudged, found.legit),
        ])  # fmt: skip
    return table(head, lines)


def wrong(rows: list[play.Row]) -> str:
    """List the kinds that went wrong, by the worst first."""
    lines = []
    for family in families.ALL.values():
        found = [row for row in rows if row.family is family]
        faults = Counter(fault for row in found if (fault := play.fault(row)))
        if faults and not family.undecidable:
            first = "; ".join(f"{fault} ({count})" for fault, count in faults.most_common(2))
            lines.append([f"`{family.name}`", family.view, f"{sum(faults.values())} of {len(found)}", first])
    return table(["kind", "a careful human sees", "runs", "outcome"], lines)


def undecided(rows: list[play.Row]) -> str:
    """List the kinds that no rule can decide."""
    lines = []
    for family in families.ALL.values():
        if family.undecidable:
            found = [row for row in rows if row.family is family]
            told, refused = sum(bool(row.trips) for row in found), sum(bool(row.refusals) for row in found)
            outcome = f"{refused} of {len(found)} refused, {told} told"
            sort = "stuck" if family.stuck else "works"
            lines.append([f"`{family.name}` ({sort})", family.view, family.undecidable, outcome])
    return table(["kind", "a careful human sees", "undecidable, for", "outcome"], lines)


# --- the rules of other systems ----------------------------------------------------------------------------------

PEERS = """## Other systems' rules on the same traces

Rules that compare calls or results, restated from their sources as of late 2026 in `benchmarks/peers.py`, with their
documented thresholds and switched on even where they are off by default. Traces have their natural names. *Told in
time* is a nudge or a refusal in time. Some rules refuse single calls, others end the run at once.
"""
LEFT_OUT = """
Not restated:
"""


class Judging:
    """A peer's rule as a judge of calls that have run, whatever it makes of them."""

    def __init__(self, peer: type[peers.Peer]) -> None:
        self.peer = peer()

    def begin(self, call: ToolCall) -> Told | None:
        """Begin a call."""
        return _told(self.peer.begin(call, 0.0))

    def end(self, call: ToolCall, outcome: Outcome) -> Told | None:
        """End a call."""
        return _told(self.peer.end(call, outcome, 0.0))


class Ending(Judging):
    """A peer's rule that refuses all calls after it has ended the run."""

    ended: Told | None = None

    def begin(self, call: ToolCall) -> Told | None:
        """Begin a call, unless the run has ended."""
        return self.ended or super().begin(call)

    def end(self, call: ToolCall, outcome: Outcome) -> Told | None:
        """End a call; a rule may end the run with it."""
        told = super().end(call, outcome)
        self.ended = told if told and told[1] == peers.ABORT else None
        return told


def _told(found: tuple[str, str] | None) -> Told | None:
    return None if found is None else (found[1], found[0], 0)


def of_peers(drawn: Drawn, runs: list[Run], labels: list[Run]) -> str:
    """Return the section of the page."""
    natural = drawn.under(["natural"])
    policy = PolicyJudge(Policy())
    guard = counted([replay(run, policy) for run in runs], labels)
    lines = [
        ["**`default`**", *canonical_counts("named"), *_examined(natural, play.GuardJudge), *_recorded(guard, runs)]
    ]
    lines += [_line(peer, natural, runs, labels) for peer in peers.PEERS]
    head = ["rule", "canonical: stuck stopped", "legitimate refused"]
    for name in ("`benchmarks/exam`", "second examination"):
        head += [f"{name}: stuck stopped", "told in time", "working refused", "ended"]
    head += ["recorded: successful runs refused", "refusals on them that withheld news", "labelled loops told"]
    sources = [[peer.title, f"{peer.source}", peer.left_out or "nothing"] for peer in peers.PEERS]
    return "\n".join([PEERS, table(head, lines), LEFT_OUT, table(["rule", "source", "left out"], sources)])


def _line(peer: type[peers.Peer], natural: Drawn, runs: list[Run], labels: list[Run]) -> list[str]:
    stopped = canonical_counts("named", lambda *_: Ending(peer))
    found = counted([corpus.replay(run, lambda _: Judging(peer)) for run in runs], labels)
    return [peer.title, *stopped, *_examined(natural, peer), *_recorded(found, runs)]


def _examined(drawn: Drawn, judge: Callable[[], play.Judge]) -> list[str]:
    cells = []
    for exam in drawn:
        found = play.figures(play.rows(exam, judge))
        cells += [_percent(found.stopped, found.stuck), _percent(found.told, found.stuck)]
        cells += [_percent(found.refused, found.legit), _percent(found.ended, found.legit)]
    return cells


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _recorded(found: Decided, runs: list[Run]) -> list[str]:
    loops = found.verdicts.loops
    return [
        share(found.figures.refused, sum(bool(run["success"]) for run in runs)),
        str(len(found.figures.withheld)),
        f"{loops - len(found.verdicts.missed)} of {loops}",
    ]


def main() -> int:
    """Write the page, or compare it with the measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description="Measure the decisions.")
    parser.add_argument("--corpora", type=Path, default=corpus.CORPORA)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if the page would change")
    options = parser.parse_args()
    if not corpus.files(options.corpora):
        print(f"no corpora in {options.corpora}", file=sys.stderr)
        return 2
    if not shared.present():
        print(f"no second examination in {shared.FOLDER}", file=sys.stderr)
        return 2
    text = page(options.corpora)
    if options.check:
        return int(text != PAGE.read_text("utf-8"))
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
