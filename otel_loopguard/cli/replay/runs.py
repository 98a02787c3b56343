"""Runs as JSON lines, one run a line: their calls are fed to a judge, and their trips come out.

Written for speed: what a run's calls have in common is looked up once, and nothing is made that is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.cli.replay import fast_path
from otel_loopguard.cli.replay.judge import Tripped, brought_something_new
from otel_loopguard.cli.replay.outcomes import Hasher, seen_of
from otel_loopguard.cli.replay.undecided import NO_TIME, NO_TOOLS
from otel_loopguard.core.model import Action, ToolCall
from otel_loopguard.core.tools.contracts import ResolvedCall

if TYPE_CHECKING:
    from otel_loopguard.cli.replay.fast_path import Read
    from otel_loopguard.cli.replay.judge import Judge, TurnJudge
    from otel_loopguard.core.model import Record, Trip


_HASHER = Hasher()


class Run(NamedTuple):
    """A run, and what is known of how it ended."""

    run_id: str
    success: bool | None
    turns: list[dict[str, Any]]
    tools: frozenset[str] | None
    calls: int


class NotARunError(ValueError):
    """The line is JSON, but no run; the message says what is missing."""


def read(found: dict[str, Any]) -> Run:
    """A parsed line as a run."""
    turns = found.get("turns")
    if not isinstance(turns, list):
        raise NotARunError("turns must be a list")
    calls = sum([len(turn["calls"]) for turn in turns])
    success, tools = found.get("success"), found.get("tools")
    known = frozenset(tools) if isinstance(tools, list) else None
    return Run(str(found.get("run_id")), success if isinstance(success, bool) else None, turns, known or None, calls)


def replay(run: Run, judge: Judge) -> list[Tripped]:
    """The trips of a run. A turn that is plain to its end is not judged at all."""
    trips: list[Tripped] = []
    for number, turn in enumerate(run.turns):
        calls = turn["calls"]
        names = {call["tool"] for call in calls}
        made_up = () if run.tools is None else names - run.tools
        if not made_up and fast_path.calls_each_once(calls, names, judge.tools):
            continue
        read = _understood(calls, judge)
        written = None if fast_path.sure_to_differ(read) else fast_path.canonical_arguments(read)
        first = fast_path.until(calls, read, written, judge.tools)
        if made_up:
            first = min(first, next(position for position, call in enumerate(calls) if call["tool"] in made_up))
        if first < len(calls):
            course = _Course(judge, run.tools, number, trips)
            course.run(calls, read, written or fast_path.canonical_arguments(read), first)
    return trips


def undecided(run: Run) -> tuple[str, ...]:
    """What is missing from this run that some mode asks for."""
    tools = () if run.tools is not None else (NO_TOOLS,)
    for turn in run.turns:
        if turn["calls"]:
            return tools if "at" in turn["calls"][0] else (*tools, NO_TIME)
    return tools


def _understood(calls: list[dict[str, Any]], judge: Judge) -> list[Read]:
    contracts, tools = judge.compiled.contracts, judge.tools
    kind_of, simple, read = contracts.kind, tools.simple, []
    for call in calls:
        name, arguments = call["tool"], call.get("args")
        limits = simple.get(name)
        if limits is None:
            tool, arguments, kind = contracts.resolve(ToolCall(name, arguments))
            limits = tools.limits(name, tool)
        else:
            kind = kind_of(limits.tool, arguments)
        read.append((limits, kind, arguments))
    return read


class _Course:
    """One turn on its way through a judge."""

    __slots__ = ("_judge", "_known", "_now", "_number", "_trips", "_turn")

    def __init__(self, judge: Judge, known: frozenset[str] | None, number: int, trips: list[Tripped]) -> None:
        self._judge = judge
        self._known = known
        self._number = number
        self._trips = trips
        self._now = 0.0
        self._turn: TurnJudge

    def run(self, calls: list[dict[str, Any]], read: list[Read], written: list[bytes], first: int) -> None:
        """Calls of one step begin all, then end all. Until the ``first`` that a mode may object to, none is asked."""
        length = len(calls)
        turn = self._turn = self._judge.turn(_HASHER)
        if self._judge.forgets:
            first = 0
        asks, begin, end = turn.asks, self._begin, self._end
        position = 0
        while position < length:
            step, last = calls[position].get("step"), position + 1
            if step is not None:
                while last < length and calls[last].get("step") == step:
                    last += 1
            turn.asks = asks and last > first
            if last == position + 1:
                end(position, calls[position], begin(calls[position], read[position], written[position]))
            else:
                begun = [begin(calls[index], read[index], written[index]) for index in range(position, last)]
                for index, record in enumerate(begun, position):
                    end(index, calls[index], record)
            position = last

    def _begin(self, call: dict[str, Any], read: Read, data: bytes) -> Record:
        limits, kind, arguments = read
        tool, registered, at = limits.tool, None, call.get("at")
        if self._known is not None and tool.name == call["tool"]:
            registered = tool.name in self._known
        if at is not None:
            self._now = _seconds(at)
        resolved = ResolvedCall(tool, arguments, kind)
        return self._turn.begin(resolved, _HASHER.of(data), registered=registered, now=self._now)

    def _end(self, position: int, call: dict[str, Any], record: Record) -> None:
        trip = record.trip
        said = self._turn.end(record, seen_of(call, record.resolved.arguments, _HASHER))
        if trip is None:
            if said is None:
                return
            trip = said
        self._note(position, trip, record)

    def _note(self, position: int, trip: Trip, record: Record) -> None:
        if trip.action >= Action.NUDGE:
            lost = trip.action >= Action.REUSE and brought_something_new(record)
            found = Tripped(self._number, position, record.tool, str(trip.mode), trip.action, trip.count, lost)
            self._trips.append(found)


def _seconds(at: Any) -> float:
    if type(at) is float or type(at) is int:
        return float(at)
    raise NotARunError("`at` must be a number of seconds")
