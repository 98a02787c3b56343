"""Play a trace through the guard, or through another system's rule, and count the outcomes.

A model that is deaf makes all calls of its trace. One that heeds what it is told reacts: if it is stuck, it gives up;
if it works, it leaves out the equal calls that would follow.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from otel_loopguard import Guard, Outcome, Policy, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.exam.trace import Call, Family, Trace

REFUSALS = ("reuse", "block", "conclude", "abort")
END = "end"
"""The model had to answer, in place of its next call."""
ENDS = ("abort", END)


class Trip(NamedTuple):
    """An action on one call, by its position counted from 1."""

    call: int
    action: str
    mode: str


class Judge(Protocol):
    """A rule under examination: a new one for each run."""

    def thinks(self, thought: float, now: float) -> bool:
        """The model has thought so long until now, and asks for calls. Return True if it has to answer instead."""

    def begin(self, call: ToolCall, now: float) -> tuple[str, str] | None:
        """Return (action, mode) of an action before this call; it runs unless it is refused."""

    def end(self, call: ToolCall, outcome: Outcome, now: float) -> tuple[str, str] | None:
        """Return (action, mode) of an action after this call, or None."""


class GuardJudge:
    """The guard itself, under a policy; ``tells``: it is told how long the model thinks."""

    def __init__(self, policy: Policy | None = None, *, tells: bool = False) -> None:
        self.now, self.tells = 0.0, tells
        self.turn = Guard(policy or Policy(), clock=lambda: self.now).turn()

    def thinks(self, thought: float, now: float) -> bool:
        """Tell the turn how long the model has thought, and ask for its conclusion."""
        self.now = now
        if self.tells:
            self.turn.thought(thought)
        return self.turn.conclude() is not None

    def begin(self, call: ToolCall, now: float) -> tuple[str, str] | None:
        """Begin a call of the guarded turn."""
        self.now = now
        return _named(self.turn.begin(call))

    def end(self, call: ToolCall, outcome: Outcome, now: float) -> tuple[str, str] | None:
        """End a call of the guarded turn."""
        self.now = now
        return _named(self.turn.end(call, outcome))


def _named(decision: Any) -> tuple[str, str] | None:
    return (str(decision.action), str(decision.trip.mode)) if decision.action and decision.trip else None


def play(drawn: Trace, judge: Judge, heeds: float = 0.0) -> Row:
    """Make the calls of a trace. A refused call does not run; after an end nothing does.

    ``heeds``: the share of sentences that the model heeds.
    """
    row, heed = Row(drawn), random.Random(f"{drawn.family.name}/{drawn.naming}/{drawn.seed}")
    given_up: set[str] = set()

    def told(number: int, call: Call, found: tuple[str, str] | None) -> None:
        if found and number not in row.by_call:
            row.by_call[number] = Trip(number, *found)
            if heed.random() < heeds:
                given_up.add(key(call))

    for message in messages(drawn.calls):
        first, call = message[0]
        over = row.ended or bool(given_up and drawn.family.stuck)
        if not over and (over := judge.thinks(call.thought, call.begin)):
            row.by_call[first] = Trip(first, END, "")
        if over:
            row.left += [number for number, _ in message]
            continue
        row.left += [number for number, call in message if key(call) in given_up]
        ran = []
        for number, call in message:
            if number in row.left:
                continue
            made = ToolCall(call.tool, call.args, known_tools=drawn.tools)
            found = judge.begin(made, call.begin)
            told(number, call, found)
            if found is None or found[0] not in REFUSALS:
                ran.append((number, call, made))
            elif row.ended:
                break
        for number, call, made in sorted(ran, key=lambda one: one[1].begin + one[1].ran):
            told(number, call, judge.end(made, Outcome(call.result, is_error=call.is_error), call.begin + call.ran))
    return row


def key(call: Call) -> str:
    """Return a text that equal calls share."""
    return call.tool + json.dumps(call.args, sort_keys=True, default=str)


def messages(calls: list[Call]) -> Iterator[list[tuple[int, Call]]]:
    """Group the calls that a model asked for in one message, numbered from 1."""
    steps: dict[int, list[tuple[int, Call]]] = defaultdict(list)
    for number, call in enumerate(calls, 1):
        steps[call.step].append((number, call))
    yield from steps.values()


@dataclass
class Row:
    """One trace as it was played."""

    trace: Trace
    by_call: dict[int, Trip] = field(default_factory=dict)
    left: list[int] = field(default_factory=list)
    """The calls that the model did not make: it heeded what it was told, or its run was over."""

    @property
    def family(self) -> Family:
        """The family of the trace."""
        return self.trace.family

    @property
    def naming(self) -> str:
        """The naming of the trace."""
        return self.trace.naming

    @property
    def trips(self) -> list[Trip]:
        """The actions on calls, in their order."""
        return sorted(self.by_call.values())

    @property
    def refusals(self) -> list[Trip]:
        """The calls that did not run."""
        return [trip for trip in self.trips if trip.action in REFUSALS]

    @property
    def nudges(self) -> list[Trip]:
        """The calls that ran, with a sentence for the model."""
        return [trip for trip in self.trips if trip.action == "nudge"]

    @property
    def ended(self) -> bool:
        """Return True if the run was ended, or the model had to answer."""
        return any(trip.action in ENDS for trip in self.by_call.values())

    @property
    def gave_up(self) -> bool:
        """Return True if the model heeded what it was told."""
        return bool(self.left) and not self.ended

    @property
    def stop(self) -> float:
        """The first call that was refused, or after which a stuck model gave up; infinite if there is none."""
        stops = [trip.call for trip in self.refusals]
        return min([*stops, self.left[0] - 1] if self.family.stuck and self.gave_up else stops, default=math.inf)

    @cached_property
    def news(self) -> set[int]:
        """The calls whose result no equal call had before; those that did not run are in it, too."""
        seen, news = set(), set()
        gone = {*self.left, *(trip.call for trip in self.refusals)}
        for number, call in enumerate(self.trace.calls, 1):
            result = (key(call), repr(call.result))
            if result not in seen:
                news.add(number)
            if number not in gone:
                seen.add(result)
        return news

    @property
    def withheld(self) -> list[Trip]:
        """The refusals that withheld news."""
        return [trip for trip in self.refusals if trip.call in self.news]

    @property
    def before_news(self) -> list[Trip]:
        """The nudges before news: this call has a new result, or the next equal one has."""
        keys = [key(call) for call in self.trace.calls]
        found = []
        for trip in self.nudges:
            equal = (
                number for number, text in enumerate(keys[trip.call :], trip.call + 1) if text == keys[trip.call - 1]
            )
            if {trip.call, next(equal, 0)} & self.news:
                found.append(trip)
        return found


def rows(traces: Iterable[Trace], judge: Callable[[], Judge] = GuardJudge, heeds: float = 0.0) -> list[Row]:
    """Play all traces."""
    return [play(one, judge(), heeds) for one in traces]


class Figures(NamedTuple):
    """The outcomes of some rows."""

    stuck: int
    stopped: int
    """A call was refused, or the model gave up."""
    missed: int
    """Neither was a call refused nor the model told anything."""
    needed: int
    """Those that a careful human would have stopped by some call."""
    in_time: int
    told: int
    """The model was told by the call at which a careful human would have told it."""
    legit: int
    refused: int
    """Working runs that were refused a call."""
    ended: int
    nudged: int
    refusals: int
    """The refused calls of all working runs."""
    withheld: int
    nudges: int
    before_news: int
    lost: int
    """Working runs whose model left out a call that would have brought news, as it heeded what it was told."""


def figures(found: Iterable[Row], *, undecidable: bool = False) -> Figures:
    """Count the outcomes of these rows; a family that needs readable names is not counted under opaque ones."""
    fair = [
        r
        for r in found
        if not (r.family.by_name and r.naming == "opaque") and bool(r.family.undecidable) == undecidable
    ]
    stuck = [r for r in fair if r.family.stuck]
    legit = [r for r in fair if not r.family.stuck]
    needed = [(r, r.family.refused) for r in stuck if r.family.refused is not None]
    return Figures(
        stuck=len(stuck),
        stopped=sum(r.stop < math.inf for r in stuck),
        missed=sum(not r.trips for r in stuck),
        needed=len(needed),
        in_time=sum(r.stop <= limit for r, limit in needed),
        told=sum(any(trip.call <= r.family.told for trip in r.trips) for r in stuck),
        legit=len(legit),
        refused=sum(bool(r.refusals) for r in legit),
        ended=sum(r.ended for r in legit),
        nudged=sum(bool(r.nudges) for r in legit),
        refusals=sum(len(r.refusals) for r in legit),
        withheld=sum(len(r.withheld) for r in legit),
        nudges=sum(len(r.nudges) for r in legit),
        before_news=sum(len(r.before_news) for r in legit),
        lost=sum(r.gave_up and not r.news.isdisjoint(r.left) for r in legit),
    )


def faults(found: Iterable[Row]) -> dict[str, Counter[str]]:
    """Name the outcomes that a careful human would not want, by family."""
    wrong: dict[str, Counter[str]] = defaultdict(Counter)
    for row in found:
        if complaint := fault(row):
            mark = " (undecidable)" if row.family.undecidable else ""
            wrong[f"{'stuck' if row.family.stuck else 'works'} {row.family.name}{mark}"][complaint] += 1
    return dict(sorted(wrong.items()))


def fault(row: Row) -> str:
    """Name the outcome of one row that a careful human would not want; empty if there is none."""
    family, first = row.family, row.refusals[0] if row.refusals else None
    if not family.stuck:
        return f"{first.action} by {first.mode} at {first.call}" if first else ""
    if not row.trips:
        return "missed"
    if family.refused is not None and not (first and first.call <= family.refused):
        return f"refused late, at {first.call}" if first else "only told"
    return "" if row.trips[0].call <= family.told else f"told late, at {row.trips[0].call}"
