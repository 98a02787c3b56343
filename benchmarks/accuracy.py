"""Measure the decisions, and write docs/accuracy.md: python -m benchmarks.accuracy [--check] [--corpora FOLDER].

The recorded runs and the second examination are not part of this project. Without them, in ../shared, nothing is
measured.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import peers
from benchmarks.exam import families, play, shared
from benchmarks.exam.names import NAMINGS
from benchmarks.markdown import table
from otel_loopguard import Policy
from otel_loopguard.cli.replay import recorded_runs as reading
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

    Run = dict[str, Any]

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"

INTRODUCTION = """# Accuracy

How often the default policy stops an agent that is stuck, and how often it disturbs one that works.
`python -m benchmarks.accuracy` measures, and writes this page.

- **Recorded runs of real agents**: {refused} of {good} successful runs were refused a call; {told} of {loops} loops
  that are labelled by hand were told or refused.
- **Drawn agents that are stuck**, in two examinations: {stopped} were stopped, {missed} were missed.
- **Drawn agents that work** and look stuck: {legit} were refused a call, {ended} were ended; {nudged} were told
  something at a call that ran.
- **The rules of other systems** on the same agents are in [the last table](#other-systems-rules-on-the-same-traces).

## What this page cannot show

- **No error rates of practice.** Drawn agents are picked to be hard, by people who know the rule; their shares
  compare versions and rules. `otel-loopguard replay` on your own recorded runs, or `action = "observe"`, tells how
  often your agents are refused a call.
- **No reactions.** Recorded and drawn agents do not read what they are told. A real model may obey, or find another
  way to loop.
- **No recorded coding runs.** In coding, identical calls are mostly legitimate; only drawn agents do it.
- **Few labels.** {labels} repeats are labelled by hand. Most failed runs fail for other reasons than loops.
- **No other system as it runs.** The rules of others have lists of tool names that fit their own tools, and are here
  without the parts that read more than tool calls.
"""


def page(folder: Path) -> str:
    """Measure, and return the page."""
    runs = [run for path in corpus.files(folder) for run in corpus.runs(path)]
    labels = corpus.labels(folder)
    drawn = drawn_traces()
    guard = measured(runs, POLICIES[0], labels)
    examined = [play.figures(play.rows(exam)) for exam in drawn.under(["natural"])]
    sections = (
        introduction(guard, examined, len(labels)),
        of_runs(runs, labels),
        of_canonical_traces(),
        of_examinations(drawn),
        of_peers(drawn, runs, labels),
    )
    return "\n\n".join(sections) + "\n"


def introduction(guard: Decided, examined: list[play.Figures], labels: int) -> str:
    """Return the conclusions: recorded runs, and both examinations with natural names of tools."""
    verdicts = guard.verdicts

    def shares(of: Callable[[play.Figures], tuple[int, int]]) -> str:
        return " and ".join(_percent(*of(one)) for one in examined)

    return INTRODUCTION.format(
        refused=guard.figures.refused,
        good=sum(bool(one.run["success"]) for one in guard.replayed),
        told=verdicts.loops - len(verdicts.missed),
        loops=verdicts.loops,
        stopped=shares(lambda one: (one.stopped, one.stuck)),
        missed=shares(lambda one: (one.missed, one.stuck)),
        legit=shares(lambda one: (one.refused, one.legit)),
        nudged=shares(lambda one: (one.nudged, one.legit)),
        ended=shares(lambda one: (one.ended, one.legit)),
        labels=labels,
    ).rstrip()


# --- recorded runs -----------------------------------------------------------------------------------------------

POLICIES = ("default", "repeat_hint", "local_reads", "turn_nudge", "typed_window", "chat_turn")

RUNS = """## Runs of real agents

{numbers}: tau-bench (customer service), question
answering with Search and Lookup, and real MCP servers behind a gateway. The runs are not part of this project. They
are [replayed](replay.md#judgement): every refusal is counted, not only the first. The other [presets](presets.md)
judge arguments only.
"""
WITHHELD = """
A refusal *withheld news* if this call had not returned its recorded result before in its turn.
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
    good, bad = (sum(run["success"] is wanted for run in runs) for wanted in (True, False))
    found = {name: measured(runs, name, labels) for name in POLICIES}
    kept = found[POLICIES[0]].verdicts
    head = ["policy", f"successful runs refused a call, of {good}", f"failed runs refused a call, of {bad}"]
    head += ["refusals that withheld news", "on successful runs", f"labelled loops told or refused, of {kept.loops}"]
    head += [f"labelled legitimate repeats refused, of {kept.legit}", f"successful runs told, of {good}"]
    rows = []
    for name, row in found.items():
        rows.append([
            f"`{name}`",
            _counted(sum(one.run["success"] is True for one in row.refused), good),
            _counted(sum(one.run["success"] is False for one in row.refused), bad),
            f"{len(row.figures.withheld_anywhere)} of {sum(len(one.refusals) for one in row.replayed)}",
            len(row.figures.withheld),
            row.verdicts.loops - len(row.verdicts.missed),
            len(row.verdicts.legit_refused),
            _counted(row.figures.nudged, good),
        ])  # fmt: skip
    return table(head, rows)


def _counted(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.1%})"


def of_runs(runs: list[Run], labels: list[Run]) -> str:
    """Return the section of the page."""
    calls = sum(len(turn["calls"]) for run in runs for turn in run["turns"])
    numbers = f"{len(runs)} runs, {calls:,} calls, {len(labels)} repeats labelled by hand"
    return "\n".join([RUNS.format(numbers=numbers), by_policy(runs, labels), WITHHELD.rstrip()])


# --- canonical traces --------------------------------------------------------------------------------------------

CANONICAL_SEEDS = range(5)
NAMED = {"named": "as named", "prefixed": "prefixed", "camel": "camelCase", "opaque": "opaque (`tool_71`)"}

CANONICAL = """## Canonical traces

Short agents with the plain form of each loop, drawn from {seeds} seeds. A kind counts as stopped if it was so under
every seed, and as refused if it was so under any.
"""


def of_canonical_traces() -> str:
    """Return the section of the page."""
    stuck, legitimate = (len(traces.kinds(stuck=stuck, canonical=True)) for stuck in (True, False))
    head = ["tools", f"stuck stopped, of {stuck}", f"legitimate refused, of {legitimate}"]
    rows = [[shown, *canonical_counts(naming)] for naming, shown in NAMED.items()]
    return "\n".join([CANONICAL.format(seeds=len(CANONICAL_SEEDS)), table(head, rows)])


def canonical_counts(naming: str) -> list[str]:
    """Count the stuck kinds that are stopped, and the legitimate ones that are refused a call."""
    found = []
    for stuck, of_all in ((True, all), (False, any)):
        names = traces.kinds(stuck=stuck, canonical=True)
        refused = [
            of_all(bool(runner.run(traces.trace(name, naming, seed), guarded).refused) for seed in CANONICAL_SEEDS)
            for name in names
        ]
        found.append(str(sum(refused)))
    return found


def guarded(trace: traces.Trace, clock: Callable[[], float]) -> Judged:
    """A turn of the guard under the default policy and the trace's contracts."""
    return EnforcedTurn(trace.contracts, clock)


# --- examinations ------------------------------------------------------------------------------------------------

SEEDS = range(100, 103)
"""The rule was written with lower ones in view."""

EXAMINATIONS = """## Examinations

Agents that work and agents that are stuck, drawn from practice as of 2025 and 2026. Tools are named in six ways: as
frameworks and servers name them (*natural*), prefixed by a server, in camelCase, as MCP clients do, opaque (`f17`),
and in other languages. In 60 % of the runs the framework flags errors, in the others an error is a text. *In time* is
not later than a careful human would have told the model, or refused the call. There are {seeds} seeds for each kind
and naming, none of which was used to write the rule.

`benchmarks/exam` has {stuck} kinds of stuck agents and {legit} that work; `python -m benchmarks.exam -v` plays them.
They were drawn apart from the rule, but part of what they showed was corrected: at first 6 % of the working runs were
refused a call, and 82 % of the stuck were stopped.
"""
OTHER = """
The second examination is not part of this project. It was drawn by the designers of the rule, who knew its kinds, not
these seeds.
"""
WRONG = """
Kinds of `benchmarks/exam` with another outcome than a careful human wants:
"""
OPEN = """
## Undecidable without a declaration

These kinds are in none of the figures above: the calls do not show the fact that decides. [A
declaration](how-it-decides.md#what-stays-undecidable-without-a-declaration) or the model's messages do.
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
    """The shares of the outcomes with natural names, and the worst share under any naming; and of how many runs."""
    head = ["tools", "stuck, stopped", "stopped in time", "told in time", "missed"]
    head += ["working, refused a call", "ended", "told"]
    found = {naming: play.figures(row for row in rows if row.naming == naming) for naming in NAMINGS}
    shares = {naming: _shares(one) for naming, one in found.items()}
    good, bad = zip(*shares.values(), strict=True)
    worst = [*map(min, zip(*good, strict=True)), *map(max, zip(*bad, strict=True))]
    lines = [
        [name, *(f"{share:.1%}" for share in row)]
        for name, row in {"natural": [*itertools.chain(*shares["natural"])], "the worst of six namings": worst}.items()
    ]
    stuck_runs, needed, legit = (
        " or ".join(map(str, sorted(set(numbers))))
        for numbers in zip(*((one.stuck, one.needed, one.legit) for one in found.values()), strict=True)
    )
    told = f"Each naming has {stuck_runs} stuck runs, {needed} of which have to be stopped, and {legit} that work."
    return f"{told}\n\n{table(head, lines)}"


def _shares(one: play.Figures) -> tuple[list[float], list[float]]:
    """The shares of good outcomes, and those of bad ones."""
    good = [one.stopped / one.stuck, one.in_time / one.needed, one.told / one.stuck]
    return good, [one.missed / one.stuck, *(part / one.legit for part in (one.refused, one.ended, one.nudged))]


def wrong(rows: list[play.Row]) -> str:
    """List the kinds that went wrong, by the worst first."""
    lines = []
    for family in families.ALL.values():
        found = [row for row in rows if row.family is family]
        faults = Counter(fault for row in found if (fault := play.fault(row)))
        if faults and not family.undecidable:
            first = "; ".join(f"{fault} ({count})" for fault, count in faults.most_common(2))
            lines.append([f"`{family.name}`", family.view, first])
    return table(["kind", "a careful human sees", f"outcome (runs, of {len(NAMINGS) * len(SEEDS)})"], lines)


def undecided(rows: list[play.Row]) -> str:
    """List the kinds that no rule can decide."""
    lines = []
    for family in families.ALL.values():
        if family.undecidable:
            found = [row for row in rows if row.family is family]
            told, refused = sum(bool(row.trips) for row in found), sum(bool(row.refusals) for row in found)
            outcome = f"{refused} of {len(found)} refused, {told} told"
            sort = "stuck" if family.stuck else "works"
            lines.append([f"`{family.name}` ({sort})", family.undecidable, outcome])
    return table(["kind", "undecidable, for", "outcome"], lines)


# --- the rules of other systems ----------------------------------------------------------------------------------

PEERS = """## Other systems' rules on the same traces

Rules that compare calls or results, restated from their sources as of late 2026, with their documented thresholds and
switched on even where they are off by default; `benchmarks/peers.py` has what is left out of each. *Drawn* are the
traces of `benchmarks/exam`, with natural names of tools, *recorded* the successful runs above. *Told* is told or
refused, in time.
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


def _told(found: tuple[str, str] | None) -> Told | None:
    return None if found is None else (found[1], found[0], 0)


def of_peers(drawn: Drawn, runs: list[Run], labels: list[Run]) -> str:
    """Return the section of the page."""
    natural = drawn.under(["natural"]).own
    policy = PolicyJudge(Policy())
    guard = counted([replay(run, policy) for run in runs], labels)
    lines = [["**`default`**", *_examined(natural, play.GuardJudge), *_recorded(guard)]]
    lines += [_line(peer, natural, runs, labels) for peer in peers.PEERS]
    labelled, good = guard.verdicts.loops, sum(bool(run["success"]) for run in runs)
    head = ["rule", "drawn: stuck stopped", "told", "working refused", "ended"]
    head += [f"recorded: refused, of {good}", "refusals that withheld news", f"labelled loops told, of {labelled}"]
    return "\n".join([PEERS, table(head, lines)])


def _line(peer: type[peers.Peer], natural: list[Trace], runs: list[Run], labels: list[Run]) -> list[str]:
    found = counted([corpus.replay(run, lambda _: Judging(peer)) for run in runs], labels)
    return [peer.title, *_examined(natural, peer), *_recorded(found)]


def _examined(drawn: list[Trace], judge: Callable[[], play.Judge]) -> list[str]:
    found = play.figures(play.rows(drawn, judge))
    stuck = [_percent(found.stopped, found.stuck), _percent(found.told, found.stuck)]
    return [*stuck, _percent(found.refused, found.legit), _percent(found.ended, found.legit)]


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _recorded(found: Decided) -> list[str]:
    return [
        str(found.figures.refused),
        str(len(found.figures.withheld)),
        str(found.verdicts.loops - len(found.verdicts.missed)),
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
