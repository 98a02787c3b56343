"""Play a trace through the guard, or through another system's rule, and count the outcomes."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from otel_loopguard import Guard, Outcome, Policy, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.exam.trace import Call, Family, Trace

REFUSALS = ("reuse", "block", "conclude", "abort")


class Trip(NamedTuple):
    """An action on one call, by its position counted from 1."""

    call: int
    action: str
    mode: str


class Judge(Protocol):
    """A rule under examination: a new one for each run."""

    def begin(self, call: ToolCall, now: float) -> tuple[str, str] | None:
        """Return (action, mode) of an action before this call; it runs unless it is refused."""

    def end(self, call: ToolCall, outcome: Outcome, now: float) -> tuple[str, str] | None:
        """Return (action, mode) of an action after this call, or None."""


class GuardJudge:
    """The guard itself, under a policy."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.now = 0.0
        self.turn = Guard(policy or Policy(), clock=lambda: self.now).turn()

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


def play(drawn: Trace, judge: Judge) -> list[Trip]:
    """Make the calls of a trace. A refused call does not run; after an abort nothing does."""
    trips: dict[int, Trip] = {}
    for message in messages(drawn.calls):
        ran = []
        for number, call in message:
            made = ToolCall(call.tool, call.args, known_tools=drawn.tools)
            found = judge.begin(made, call.begin)
            if found:
                trips[number] = Trip(number, *found)
            if found is None or found[0] not in REFUSALS:
                ran.append((number, call, made))
            elif found[0] == "abort":
                return sorted(trips.values())
        for number, call, made in sorted(ran, key=lambda one: one[1].begin + one[1].ran):
            found = judge.end(made, Outcome(call.result, is_error=call.is_error), call.begin + call.ran)
            if found:
                trips.setdefault(number, Trip(number, *found))
                if found[0] == "abort":
                    return sorted(trips.values())
    return sorted(trips.values())


def messages(calls: list[Call]) -> Iterator[list[tuple[int, Call]]]:
    """Group the calls that a model asked for in one message, numbered from 1."""
    steps: dict[int, list[tuple[int, Call]]] = defaultdict(list)
    for number, call in enumerate(calls, 1):
        steps[call.step].append((number, call))
    yield from steps.values()


class Row(NamedTuple):
    """One trace and its trips."""

    family: Family
    naming: str
    seed: int
    trips: list[Trip]

    @property
    def refusals(self) -> list[Trip]:
        """The calls that did not run."""
        return [trip for trip in self.trips if trip.action in REFUSALS]


def rows(traces: Iterable[Trace], judge: Callable[[], Judge] = GuardJudge) -> list[Row]:
    """Play all traces."""
    return [Row(one.family, one.naming, one.seed, play(one, judge())) for one in traces]


class Figures(NamedTuple):
    """The outcomes of some rows."""

    stuck: int
    stopped: int
    """A call was refused."""
    missed: int
    """Neither was a call refused nor the model told anything."""
    needed: int
    """Those that a careful human would have stopped by some call."""
    in_time: int
    told: int
    """The model was told by the call at which a careful human would have told it."""
    legit: int
    refused: int
    ended: int
    nudged: int


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
        stopped=sum(bool(r.refusals) for r in stuck),
        missed=sum(not r.trips for r in stuck),
        needed=len(needed),
        in_time=sum(any(trip.call <= limit for trip in r.refusals) for r, limit in needed),
        told=sum(any(trip.call <= r.family.told for trip in r.trips) for r in stuck),
        legit=len(legit),
        refused=sum(bool(r.refusals) for r in legit),
        ended=sum(any(trip.action == "abort" for trip in r.trips) for r in legit),
        nudged=sum(any(trip.action == "nudge" for trip in r.trips) for r in legit),
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
