"""Figures of the default policy on drawn agents, under six naming schemes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.accuracy.markdown import share, table
from benchmarks.exam import families, play, shared
from benchmarks.exam.names import NAMINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.exam.trace import Trace

SEEDS = range(100, 103)
"""The rule was written with lower ones in view."""

HEAD = """## Examinations

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
        own, other = ([one for one in traces if one.naming in namings] for traces in self)
        return Drawn(own, other)


def traces() -> Drawn:
    """Draw both examinations."""
    return Drawn(families.draw(NAMINGS, SEEDS), shared.draw(NAMINGS, SEEDS))


def section(drawn: Drawn) -> str:
    """Return the section of the page."""
    own, other = play.rows(drawn.own), play.rows(drawn.other)
    decidable = [family for family in families.ALL.values() if not family.undecidable]
    stuck = sum(family.stuck for family in decidable)
    parts = [HEAD.format(seeds=len(SEEDS), stuck=stuck, legit=len(decidable) - stuck), by_naming(own)]
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
