"""Replay runs recorded as JSON lines, one run a line.

Written for speed: facts that the calls of a run share are looked up once, and no object is made without need.
"""

from __future__ import annotations

from math import isfinite
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.cli.replay import counted_turn, fast_path
from otel_loopguard.cli.replay.judge import TripOfRun, result_was_new, shown_tool
from otel_loopguard.cli.replay.outcomes import FINGERPRINTER, facts_of
from otel_loopguard.cli.replay.summary import Missing
from otel_loopguard.cli.replay.timeline import Timeline, are_one_by_one
from otel_loopguard.engine.conversation import ConversationMemory, ConversationTurn
from otel_loopguard.engine.tools.contracts import ResolvedCall
from otel_loopguard.engine.words import Action, Record, ToolCall

if TYPE_CHECKING:
    from otel_loopguard.cli.replay.fast_path import Call, KnownCall
    from otel_loopguard.cli.replay.judge import PolicyJudge
    from otel_loopguard.engine.words import Trip


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
        names = [call["tool"] for call in calls]
        distinct = set(names)
        unknown = () if run.tools is None else distinct - run.tools
        if not unknown and fast_path.is_short_and_varied(names, distinct, judge.limits):
            continue
        known = _resolve(calls, judge)
        identities = fast_path.identities(known, judge.compiled.contracts)
        first = fast_path.first_to_judge(calls, known, identities, judge.limits)
        if unknown:
            first = min(first, next(position for position, name in enumerate(names) if name in unknown))
        if first < len(calls):
            found = None
            if judge.counts_alone:
                found = counted_turn.replay(judge, run.tools, number, calls, known, identities, first)
            if found is None:
                turn_replay = _TurnReplay(judge, run.tools, number)
                found = turn_replay.run(calls, known, identities, 0 if judge.forgets else first)
            trips += found
    return _with_turns(run, judge, trips) if judge.compiled.remembers else trips


def _with_turns(run: Run, judge: PolicyJudge, trips: list[TripOfRun]) -> list[TripOfRun]:
    """Add the trips over the turns of a run, which are those of one conversation."""
    compiled, memory = judge.compiled, ConversationMemory()
    tripped = {(trip.turn, trip.call) for trip in trips}
    for number, turn in enumerate(run.turns):
        place = ConversationTurn(memory, "", number)
        for position, call in enumerate(turn["calls"]):
            record = Record()
            record.resolved, arguments = compiled.contracts.identify(ToolCall(call["tool"], call.get("args")))
            tool, _, record.kind = record.resolved
            record.tool, record.key, record.index = tool.name, arguments ^ tool.digest, position
            facts = facts_of(call, record.resolved.arguments, FINGERPRINTER, None)
            now = seconds(call, "ended") or seconds(call, "at")
            trip = place.end(record, facts, compiled, now, reports=(number, position) not in tripped)
            if trip is not None:
                is_known = run.tools is not None and tool.name == call["tool"]  # not behind a gateway
                shown = shown_tool(tool, tool.name in run.tools if is_known else None)  # type: ignore[operator]  # see is_known
                count, limit = trip.count, trip.limit
                trips.append(TripOfRun(number, position, shown, str(trip.mode), trip.action, count, limit=limit))
    return sorted(trips, key=_turn_and_call)


def missing(run: Run) -> tuple[Missing, ...]:
    """Return the facts that some mode needs and that this run does not have."""
    tools = () if run.tools is not None else (Missing.TOOLS,)
    for turn in run.turns:
        if turn["calls"]:
            timed = turn["calls"][0].get("at") is not None
            return tools if timed else (*tools, Missing.TIMES)
    return tools


def _resolve(calls: list[Call], judge: PolicyJudge) -> list[KnownCall]:
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

    __slots__ = ("_number", "_timeline", "_tools", "_trips", "_turn")

    def __init__(self, judge: PolicyJudge, tools: frozenset[str] | None, number: int) -> None:
        self._turn = judge.turn(FINGERPRINTER)
        self._tools = tools
        self._number = number
        self._timeline = Timeline(self._turn.history)
        self._trips: list[TripOfRun] = []

    def run(self, calls: list[Call], known: list[KnownCall], identities: list[bytes], first: int) -> list[TripOfRun]:
        """Begin and end the calls as they ran. No mode is asked before the call at ``first``."""
        turn, timeline, end = self._turn, self._timeline, self._end
        asks, turn.asks = turn.asks, False
        if are_one_by_one(calls):  # as the timeline has it, without its objects
            for position, call in enumerate(calls):
                if position == first:
                    turn.asks = asks
                written = None if call.get("step") is None else turn.history.tick
                end(position, call, self._begin(call, known[position], identities[position], None, written), None)
            return self._trips
        for position, call in enumerate(calls):
            for _, ended, one, record in timeline.begin(seconds(call, "at"), call.get("step")):
                end(ended, one, record, timeline.now)
            if position == first:
                turn.asks = asks
            record = self._begin(call, known[position], identities[position], timeline.now, timeline.written)
            timeline.add(position, call, record, seconds(call, "ended"))
        for _, ended, one, record in timeline.rest():
            end(ended, one, record, timeline.now)
        self._trips.sort(key=_position)
        return self._trips

    def _begin(self, call: Call, known: KnownCall, identity: bytes, now: float | None, written: int | None) -> Record:
        limits, kind, arguments = known
        tool, registered = limits.tool, None
        if self._tools is not None and tool.name == call["tool"]:
            registered = tool.name in self._tools
        resolved = tuple.__new__(ResolvedCall, (tool, arguments, kind))  # a third of the time of the constructor
        return self._turn.begin(resolved, FINGERPRINTER.of(identity), registered=registered, now=now, written=written)

    def _end(self, position: int, call: Call, record: Record, now: float | None) -> None:
        trip = record.trip
        facts = facts_of(call, record.resolved.arguments, FINGERPRINTER, self._turn.pending_words_for(record))
        nudge = self._turn.end(record, facts, now)
        if trip is None:
            if nudge is None:
                return
            trip = nudge
        self._add(position, trip, record)

    def _add(self, position: int, trip: Trip, record: Record) -> None:
        if trip.action >= Action.NUDGE:
            lost = trip.action >= Action.REUSE and result_was_new(record)
            tool = shown_tool(record.resolved.tool, record.registered)
            found = TripOfRun(self._number, position, tool, str(trip.mode), trip.action, trip.count, lost, trip.limit)
            self._trips.append(found)


_position = attrgetter("call")
_turn_and_call = attrgetter("turn", "call")


def seconds(call: Call, key: str) -> float | None:
    """Return a time of a call; None if it has none."""
    time = call.get(key)
    if time is None:
        return None
    if (type(time) is float or type(time) is int) and isfinite(time):
        return float(time)
    raise NotARunError(f"`{key}` must be a number of seconds")
