"""Measure the decisions, and write docs/accuracy.md: python -m benchmarks.accuracy [--check] [--corpora FOLDER].

The recorded runs and the second examination are not part of this project. Without them, in ../shared, nothing is
measured.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
import textwrap
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
from tests.engine.judges import corpus, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchmarks.exam.trace import Trace
    from otel_loopguard import Outcome, ToolCall
    from tests.engine.judges.real import Told

    Run = dict[str, Any]

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"

INTRODUCTION = """# Accuracy

How often the default policy stops an agent that is stuck, and how often it disturbs one that works.
`python -m benchmarks.accuracy` measures, and writes this page.

- **Recorded runs of real agents**: {refused} of {good} successful runs were refused a call; {told} of {loops} loops
  that are labelled by hand were told or refused.
{kept}
{seen}
- **Two examinations of older kinds**, much of which was corrected: {stopped} of the stuck runs were stopped, {missed}
  were missed; {legit} of the working runs were refused a call, {ended} were ended.
- **The rules of other systems** on the same agents are in [the last table](#other-systems-rules-on-the-same-traces).

## What this page cannot show

- **No error rates of practice.** Drawn agents are picked to be hard, most by people who know the rule; their
  shares compare versions and rules. `otel-loopguard replay` on your own recorded runs, or `action = "observe"`, tells
  how often your agents are refused a call.
- **Few unseen kinds.** The runs of one kind mostly go the same way: {kinds} kept kinds are {kinds} samples, however
  many runs there are.
- **Simple reactions.** Drawn agents are scripts. One that heeds a sentence gives up if it is stuck, and leaves out the
  equal calls that would follow if it works; a real model may argue, wait longer, or find another way to loop.
- **No meaning of news.** A result is new if no equal call had the same text before. So a clock in it is news.
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
    anew = played_anew()
    sections = (
        introduction(guard, examined, anew, len(labels)),
        of_runs(runs, labels),
        of_kinds_drawn_anew(anew),
        of_examinations(drawn, anew),
        of_peers(runs, labels),
    )
    return "\n\n".join(sections) + "\n"


def introduction(guard: Decided, examined: list[play.Figures], anew: list[Slice], labels: int) -> str:
    """Return the conclusions: recorded runs, kinds drawn anew, and both examinations with natural names of tools."""
    verdicts = guard.verdicts

    def shares(of: Callable[[play.Figures], tuple[int, int]]) -> str:
        return " and ".join(_percent(*of(one)) for one in examined)

    seen, kept = (play.figures(rows) for rows in families.parted(usual(anew)))
    return INTRODUCTION.format(
        refused=guard.figures.refused,
        good=sum(bool(one.run["success"]) for one in guard.replayed),
        told=verdicts.loops - len(verdicts.missed),
        loops=verdicts.loops,
        kept=concluded("Drawn agents of kinds that are kept from the tuning", kept),
        seen=concluded("The other two thirds of the kinds that were drawn with these", seen),
        kinds=len(families.KEPT),
        stopped=shares(lambda one: (one.stopped, one.stuck)),
        missed=shares(lambda one: (one.missed, one.stuck)),
        legit=shares(lambda one: (one.refused, one.legit)),
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
    found, _ = reading.replay(reading.read(run), judge)
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


# --- kinds drawn anew --------------------------------------------------------------------------------------------

PACES = ((1.0, 4.0), (4.0, 15.0), (10.0, 60.0))
USUAL = PACES[1]
FEW_NAMINGS = ("natural", "opaque", "foreign")
HEEDS = 0.3

ANEW = """## Kinds drawn anew

`benchmarks/exam/anew_*.py` has {stuck} kinds of stuck agents and {legit} that work. They were drawn after reports of
users and from practice, by somebody who had not read the rule, but knew the older kinds and how they went. A third, by
a hash of the name, is kept: of {kept_stuck} stuck and {kept_legit} working kinds only totals are looked at.

They are played live, with natural, opaque and foreign names of tools, and {seeds} seeds for each kind and naming. The
model thinks for 4 to 15 s before a message, and the guard is told so (`Turn.thought`); waits on purpose come on top.
The model is deaf. Rows that differ say so.

*In time* is not later than a careful human would have told the model, or refused the call. A refusal withheld news as
[above](#runs-of-real-agents). A nudge came *before news* if its call, or the next equal one, had a result that no
equal call had before.
"""
LOST = """
Where 30 % of the sentences are heeded, {kept} of {kept_legit} working runs of kept kinds and {seen} of {seen_legit} of
the others left out a call that would have brought news.
"""


class Slice(NamedTuple):
    """The runs of all kinds drawn anew, at one pace of thought."""

    pace: tuple[float, float]
    tells: bool
    heeds: float
    rows: list[play.Row]


def played_anew() -> list[Slice]:
    """Play the kinds drawn anew: at each pace, told and untold, and at the usual pace with models that heed."""
    ways = [(pace, tells, 0.0) for tells in (True, False) for pace in PACES]
    return [_slice(*way) for way in [*ways, (USUAL, True, HEEDS)]]


def _slice(pace: tuple[float, float], tells: bool, heeds: float) -> Slice:
    drawn = families.draw(FEW_NAMINGS, SEEDS, families.ANEW, pace)
    return Slice(pace, tells, heeds, play.rows(drawn, functools.partial(play.GuardJudge, tells=tells), heeds))


def usual(anew: list[Slice]) -> list[play.Row]:
    """The runs at the usual pace, told, with deaf models."""
    (found,) = (one.rows for one in anew if one[:3] == (USUAL, True, 0.0))
    return found


def concluded(title: str, one: play.Figures) -> str:
    """Tell these figures in an item of a list."""
    text = (
        f"- **{title}**: {_of(one.in_time, one.needed)} runs that have to be stopped were so in time, "
        f"{_of(one.told, one.stuck)} stuck runs were told in time, {one.missed} missed. "
        f"{_of(one.refused, one.legit)} working runs were refused a call, {one.ended} were ended; "
        f"{one.withheld} of {one.refusals} refusals withheld news, {_of(one.before_news, one.nudges)} nudges came "
        "before news."
    )
    return textwrap.fill(text, 120, subsequent_indent="  ", break_on_hyphens=False)


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole} ({_percent(part, whole)})"


def of_kinds_drawn_anew(anew: list[Slice]) -> str:
    """Return the section of the page."""
    kinds = Counter((family.stuck, name in families.KEPT) for name, family in families.ANEW.items())
    head = ANEW.format(
        stuck=kinds[True, True] + kinds[True, False],
        legit=kinds[False, True] + kinds[False, False],
        kept_stuck=kinds[True, True],
        kept_legit=kinds[False, True],
        seeds=len(SEEDS),
    )
    seen, kept = (play.figures(rows) for rows in families.parted(anew[-1].rows))
    lost = LOST.format(kept=kept.lost, kept_legit=kept.legit, seen=seen.lost, seen_legit=seen.legit)
    tables = by_slice(anew, kept=True), by_slice([one for one in anew if one[:2] == (USUAL, True)], kept=False)
    parts = [head, "The kept kinds:\n", tables[0], "\nThe other two thirds:\n", tables[1], lost]
    return "\n".join(parts).rstrip()


def by_slice(slices: list[Slice], *, kept: bool) -> str:
    """The outcomes by naming, by pace, and by what the model heeds."""
    lines = []
    for one in slices:
        rows = families.parted(one.rows)[kept]
        title = f"all, thought {one.pace[0]:.0f}-{one.pace[1]:.0f} s{'' if one.tells else ', untold'}"
        if one[:3] == (USUAL, True, 0.0):
            lines[:0] = [_outcomes(naming, [row for row in rows if row.naming == naming]) for naming in FEW_NAMINGS]
        lines.append(_outcomes(f"all, {one.heeds:.0%} heeded" if one.heeds else title, rows))
    head = ["runs", "stuck: stopped in time", "told in time", "missed", "working: refused a call", "ended"]
    return table([*head, "refusals that withheld news", "nudges before news"], lines)


def _outcomes(title: str, rows: list[play.Row]) -> list[str]:
    one = play.figures(rows)
    pairs = [(one.in_time, one.needed), (one.told, one.stuck), (one.missed, one.stuck), (one.refused, one.legit)]
    pairs += [(one.ended, one.legit), (one.withheld, one.refusals), (one.before_news, one.nudges)]
    return [title, *(f"{part} of {whole}" for part, whole in pairs)]


# --- examinations ------------------------------------------------------------------------------------------------

SEEDS = range(100, 103)
"""The rule was written with lower ones in view."""

EXAMINATIONS = """## Examinations of older kinds

Tools are named in six ways: as frameworks and servers name them (*natural*), prefixed by a server, in camelCase, as
MCP clients do, opaque (`f17`), and in other languages. In 60 % of the runs the framework flags errors, in the others
an error is a text. There are {seeds} seeds for each kind and naming, none of which was used to write the rule. The
model is deaf, and the guard is not told how long it thinks.

`python -m benchmarks.exam -v` plays {stuck} kinds of stuck agents and {legit} that work. They were drawn apart from
the rule, but part of what they showed was corrected: at first 6 % of the working runs were refused a call, and 82 % of
the stuck were stopped.
"""
OTHER = """
The second examination is not part of this project. It was drawn by the designers of the rule, who knew its kinds, not
these seeds.
"""
WRONG = """
## Kinds that go wrong

All kinds above with another outcome than a careful human wants, except those kept from the tuning:
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


def of_examinations(drawn: Drawn, anew: list[Slice]) -> str:
    """Return the sections of the page."""
    own, other = play.rows(drawn.own), play.rows(drawn.other)
    decidable = [family for family in families.ALL.values() if not family.undecidable]
    stuck = sum(family.stuck for family in decidable)
    parts = [EXAMINATIONS.format(seeds=len(SEEDS), stuck=stuck, legit=len(decidable) - stuck), by_naming(own)]
    seen, _ = families.parted(usual(anew))
    parts += [OTHER, by_naming(other), WRONG, wrong([*own, *seen]), OPEN, undecided(own)]
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
    """List the kinds that went wrong, but for those that are undecidable."""
    lines = []
    for family in dict.fromkeys(row.family for row in rows):
        found = [row for row in rows if row.family is family]
        faults = Counter(fault for row in found if (fault := play.fault(row)))
        if faults and not family.undecidable:
            first = "; ".join(f"{fault} ({count} of {len(found)})" for fault, count in faults.most_common(2))
            lines.append([f"`{family.name}`", family.view, first])
    return table(["kind", "a careful human sees", "outcome (runs)"], lines)


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
kinds that are kept from the tuning, with natural names of tools and deaf models, *recorded* the successful runs above.
*Told* is told or refused, in time.
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


def of_peers(runs: list[Run], labels: list[Run]) -> str:
    """Return the section of the page."""
    natural = families.draw(["natural"], SEEDS, sorted(families.KEPT), USUAL)
    policy = PolicyJudge(Policy())
    guard = counted([replay(run, policy) for run in runs], labels)
    lines = [["**`default`**", *_examined(natural, functools.partial(play.GuardJudge, tells=True)), *_recorded(guard)]]
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
