"""Runs as JSON lines, one run a line: their calls are fed to a judge, and their trips come out.

Written for speed: what a run's calls have in common is looked up once, and nothing is made that is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.core.canonical import canonical, plain_bytes
from otel_loopguard.core.contracts import Tool, Understood
from otel_loopguard.core.model import Action, Kind, Outcome, ToolCall
from otel_loopguard.core.outcomes import ERROR_SALT, fingerprinted, hides_error

from .judge import Tripped, brought_something_new
from .undecided import NO_TIME, NO_TOOLS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.core.model import Record, Trip
    from otel_loopguard.core.outcomes import Fingerprinted

    from .judge import Judge, TurnJudge

Read = tuple[Tool, Kind, Any, bytes]
"""A call as it is understood: its tool, what it does, its arguments and their canonical bytes."""

_CUT = 2_000
_AS_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")


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
    """The trips of a run."""
    trips: list[Tripped] = []
    for number, turn in enumerate(run.turns):
        calls = turn["calls"]
        if calls:
            _Turn(judge, run.tools, number, trips).feed(calls)
    return trips


def undecided(run: Run) -> Iterator[str]:
    """What is missing from this run that some mode asks for."""
    if run.tools is None:
        yield NO_TOOLS
    first = next((turn["calls"][0] for turn in run.turns if turn["calls"]), None)
    if first is not None and "at" not in first:
        yield NO_TIME


class _Turn:
    """One turn on its way through a judge."""

    __slots__ = ("_judge", "_known", "_now", "_number", "_trips", "_turn")

    def __init__(self, judge: Judge, known: frozenset[str] | None, number: int, trips: list[Tripped]) -> None:
        self._judge = judge
        self._known = known
        self._number = number
        self._trips = trips
        self._now = 0.0
        self._turn: TurnJudge

    def feed(self, calls: list[dict[str, Any]]) -> None:
        """Calls of one step begin all, then end all."""
        if self._judge.needs_a_repeat and is_short(calls, self._known, self._judge):
            return
        read = self._read(calls)
        if self._judge.needs_a_repeat and cannot_trip(calls, read, self._known, self._judge):
            return
        self._turn = self._judge.turn()
        begin, end = self._begin, self._end
        position, length = 0, len(calls)
        while position < length:
            step, last = calls[position].get("step"), position + 1
            if step is not None:
                while last < length and calls[last].get("step") == step:
                    last += 1
            if last == position + 1:
                end(position, calls[position], begin(calls[position], *read[position]))
            else:
                begun = [begin(calls[index], *read[index]) for index in range(position, last)]
                for index, record in enumerate(begun, position):
                    end(index, calls[index], record)
            position = last

    def _read(self, calls: list[dict[str, Any]]) -> list[Read]:
        judge = self._judge
        contracts, simple, read = judge.rules.contracts, judge.simple, []
        kind_of = contracts.kind
        for call in calls:
            name, arguments = call["tool"], call.get("args")
            tool = simple.get(name)
            if tool is None:
                tool, arguments, kind = contracts.understand(ToolCall(name, arguments))
                judge.remember(name, tool)
            else:
                kind = kind_of(tool, arguments)
            read.append((tool, kind, arguments, canonical(arguments, loose=kind is not Kind.WRITE)))
        return read

    def _begin(self, call: dict[str, Any], tool: Tool, kind: Kind, arguments: Any, data: bytes) -> Record:
        registered, at = None, call.get("at")
        if self._known is not None and tool.name == call["tool"]:
            registered = tool.name in self._known
        if at is not None:
            self._now = at
        digest = self._judge.rules.fingerprinter.of(data)
        return self._turn.begin(Understood(tool, arguments, kind), digest, registered=registered, now=self._now)

    def _end(self, position: int, call: dict[str, Any], record: Record) -> None:
        trip, understood = record.trip, record.call
        said = self._turn.end(record, seen_of(call, understood.arguments, self._judge))
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


def is_short(calls: list[dict[str, Any]], known: frozenset[str] | None, judge: Judge) -> bool:
    """The same question, answered without a look at arguments and results: a few calls of different simple tools."""
    names = {call["tool"] for call in calls}
    length = len(calls)
    if len(names) < length or (known is not None and not names <= known):
        return False
    for name in names:
        tool = judge.simple.get(name)
        if tool is None or length >= min(judge.patience(tool)):
            return False
    return True


def cannot_trip(calls: list[dict[str, Any]], read: list[Read], known: frozenset[str] | None, judge: Judge) -> bool:
    """Whether this turn is too plain for any mode: nothing is repeated, and hardly anything fails. Most turns are such.

    Every mode that judges evidence needs a repeat, or a number of errors, or of equal results of a tool that reads.
    """
    length = len(calls)
    if len({(tool.name, data) for tool, _, _, data in read}) < length:
        return False
    if known is not None and not known.issuperset([call["tool"] for call in calls]):
        return False
    limits = [judge.patience(tool) for tool in {tool for tool, _, _, _ in read}]
    most_failed, most_equal = min(limit for limit, _ in limits), min(limit for _, limit in limits)
    failed = [kind for _, kind, _, _ in read].count(Kind.THINK)
    for call in calls:
        result = call.get("result")
        if not isinstance(result, str):
            return False
        said = call.get("is_error")
        if said or ("rror" in result and hides_error(plain_bytes(result), said)):
            failed += 1
    if failed >= most_failed:
        return False
    if length < most_equal:
        return True
    return length - len({call.get("result_hash") or call["result"] for call in calls}) < most_equal - 1


def seen_of(call: dict[str, Any], arguments: Any, judge: Judge) -> Fingerprinted:
    """The recorded outcome; two results are equal if their hashes are."""
    result, hashed = call.get("result"), call.get("result_hash")
    if not hashed:
        return fingerprinted(Outcome(result, None, call.get("is_error")), arguments, judge.rules.fingerprinter)
    try:
        digest = int(hashed[:16], 16)
    except ValueError:  # somebody else's hash, in another notation
        digest = judge.rules.fingerprinter.of(hashed.encode())
    outcome = Outcome(result, None, call.get("is_error"), False, digest)  # noqa: FBT003 - keywords cost a third more
    seen = fingerprinted(outcome, arguments, judge.rules.fingerprinter)
    if type(result) is str and len(result) >= _CUT:
        # What was cut off still tells results apart: as letters, so that it is not masked as an id.
        seen = seen._replace(
            digest=digest ^ ERROR_SALT if seen.is_error else digest,
            data=seen.data + b" " + hashed.translate(_AS_LETTERS).encode(),
        )
    return seen
