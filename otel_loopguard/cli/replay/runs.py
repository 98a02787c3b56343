"""Replay runs recorded as JSON lines, one run a line.

Written for speed: facts that the calls of a run share are looked up once, and no object is made without need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.cli.replay import fast_path
from otel_loopguard.cli.replay.judge import TripOfRun, result_was_new
from otel_loopguard.cli.replay.outcomes import RunFingerprinter, facts_of
from otel_loopguard.cli.replay.summary import Missing
from otel_loopguard.core.model import Action, ToolCall
from otel_loopguard.core.tools.contracts import ResolvedCall

if TYPE_CHECKING:
    from otel_loopguard.cli.replay.fast_path import KnownCall
    from otel_loopguard.cli.replay.judge import PolicyJudge
    from otel_loopguard.core.model import Record, Trip
    from otel_loopguard.core.turn.judge import TurnJudge


_FINGERPRINTER = RunFingerprinter()


class Run(NamedTuple):
    """A run of one line."""

    run_id: str
    success: bool | None
    turns: list[dict[str, Any]]
    tools: frozenset[str] | None
    """The registered tools; None if they are not recorded."""
    calls: int


class NotARunError(ValueError):
    """The line is JSON, but no run; the message names the fault."""


def read(line: dict[str, Any]) -> Run:
    """Read a parsed line as a run."""
    turns = line.get("turns")
    if not isinstance(turns, list):
        raise NotARunError("turns must be a list")
    calls = sum([len(turn["calls"]) for turn in turns])
    success, tools = line.get("success"), line.get("tools")
    known = frozenset(tools) if isinstance(tools, list) else None
    return Run(str(line.get("run_id")), success if isinstance(success, bool) else None, turns, known or None, calls)


def replay(run: Run, judge: PolicyJudge) -> list[TripOfRun]:
    """Return the trips of a run. A turn in which no call can trip is skipped."""
    trips: list[TripOfRun] = []
    for number, turn in enumerate(run.turns):
        calls = turn["calls"]
        names = {call["tool"] for call in calls}
        unknown = () if run.tools is None else names - run.tools
        if not unknown and fast_path.is_short_and_varied(calls, names, judge.limits):
            continue
        known = _resolve(calls, judge)
        arguments = None if fast_path.all_differ(known) else fast_path.canonical_arguments(known)
        first = fast_path.first_to_judge(calls, known, arguments, judge.limits)
        if unknown:
            first = min(first, next(position for position, call in enumerate(calls) if call["tool"] in unknown))
        if first < len(calls):
            replayed = _TurnReplay(judge, run.tools, number, trips)
            replayed.run(calls, known, arguments or fast_path.canonical_arguments(known), first)
    return trips


def missing(run: Run) -> tuple[Missing, ...]:
    """Return the facts that some mode needs and that this run does not have."""
    tools = () if run.tools is not None else (Missing.TOOLS,)
    for turn in run.turns:
        if turn["calls"]:
            return tools if "at" in turn["calls"][0] else (*tools, Missing.TIMES)
    return tools


def _resolve(calls: list[dict[str, Any]], judge: PolicyJudge) -> list[KnownCall]:
    contracts, limits_by_tool = judge.compiled.contracts, judge.limits
    kind_of, simple, known = contracts.kind, limits_by_tool.simple, []
    for call in calls:
        name, arguments = call["tool"], call.get("args")
        limits = simple.get(name)
        if limits is None:
            tool, arguments, kind = contracts.resolve(ToolCall(name, arguments))
            limits = limits_by_tool.of(name, tool)
        else:
            kind = kind_of(limits.tool, arguments)
        known.append((limits, kind, arguments))
    return known


class _TurnReplay:
    """The replay of one turn under one policy."""

    __slots__ = ("_judge", "_now", "_number", "_tools", "_trips", "_turn")

    def __init__(self, judge: PolicyJudge, tools: frozenset[str] | None, number: int, trips: list[TripOfRun]) -> None:
        self._judge = judge
        self._tools = tools
        self._number = number
        self._trips = trips
        self._now = 0.0
        self._turn: TurnJudge

    def run(self, calls: list[dict[str, Any]], known: list[KnownCall], arguments: list[bytes], first: int) -> None:
        """Begin all calls of a step, then end them all. No mode is asked before the call at ``first``."""
        length = len(calls)
        turn = self._turn = self._judge.turn(_FINGERPRINTER)
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
                end(position, calls[position], begin(calls[position], known[position], arguments[position]))
            else:
                begun = [begin(calls[index], known[index], arguments[index]) for index in range(position, last)]
                for index, record in enumerate(begun, position):
                    end(index, calls[index], record)
            position = last

    def _begin(self, call: dict[str, Any], known: KnownCall, data: bytes) -> Record:
        limits, kind, arguments = known
        tool, registered, at = limits.tool, None, call.get("at")
        if self._tools is not None and tool.name == call["tool"]:
            registered = tool.name in self._tools
        if at is not None:
            self._now = _seconds(at)
        resolved = ResolvedCall(tool, arguments, kind)
        return self._turn.begin(resolved, _FINGERPRINTER.of(data), registered=registered, now=self._now)

    def _end(self, position: int, call: dict[str, Any], record: Record) -> None:
        trip = record.trip
        pending_words = self._judge.compiled.contracts.pending
        nudge = self._turn.end(record, facts_of(call, record.resolved.arguments, _FINGERPRINTER, pending_words))
        if trip is None:
            if nudge is None:
                return
            trip = nudge
        self._add(position, trip, record)

    def _add(self, position: int, trip: Trip, record: Record) -> None:
        if trip.action >= Action.NUDGE:
            lost = trip.action >= Action.REUSE and result_was_new(record)
            found = TripOfRun(self._number, position, record.tool, str(trip.mode), trip.action, trip.count, lost)
            self._trips.append(found)


def _seconds(at: Any) -> float:
    if type(at) is float or type(at) is int:
        return float(at)
    raise NotARunError("`at` must be a number of seconds")
