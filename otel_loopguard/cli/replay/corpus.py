"""Runs as JSON lines, one run a line: their calls are fed to a judge, and their trips come out.

Written for speed: what a run's calls have in common is looked up once, and nothing is made that is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.core.model import Action, Kind, Outcome, ToolCall
from otel_loopguard.core.outcomes import ERROR_SALT, fingerprinted

from .judge import Tripped, brought_something_new
from .undecided import NO_TIME, NO_TOOLS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.core.model import Record, Trip
    from otel_loopguard.core.outcomes import Fingerprinted

    from .judge import Judge, TurnJudge

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
    calls = 0
    for turn in turns:
        if not isinstance(turn, dict) or not isinstance(turn.get("calls"), list):
            raise NotARunError("each turn must hold a list of calls")
        for call in turn["calls"]:
            if not isinstance(call, dict) or not isinstance(call.get("tool"), str):
                raise NotARunError("each call must name its tool")
        calls += len(turn["calls"])
    success, tools = found.get("success"), found.get("tools")
    known = frozenset(filter(lambda name: isinstance(name, str), tools)) if isinstance(tools, list) else None
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
    if not any("at" in call for turn in run.turns for call in turn["calls"][:1]):
        yield NO_TIME


class _Turn:
    """One turn on its way through a judge."""

    __slots__ = ("_judge", "_known", "_now", "_number", "_trips", "_turn")

    def __init__(self, judge: Judge, known: frozenset[str] | None, number: int, trips: list[Tripped]) -> None:
        self._judge = judge
        self._turn: TurnJudge = judge.turn()
        self._known = known
        self._number = number
        self._trips = trips
        self._now = 0.0

    def feed(self, calls: list[dict[str, Any]]) -> None:
        """Calls of one step begin all, then end all."""
        begin, end = self._begin, self._end
        position, length = 0, len(calls)
        while position < length:
            step, last = calls[position].get("step"), position + 1
            if step is not None:
                while last < length and calls[last].get("step") == step:
                    last += 1
            if last == position + 1:
                end(position, calls[position], begin(calls[position]))
            else:
                begun = [begin(call) for call in calls[position:last]]
                for index, record in enumerate(begun, position):
                    end(index, calls[index], record)
            position = last

    def _begin(self, call: dict[str, Any]) -> Record:
        rules, tool = self._judge.rules, call["tool"]
        understood = rules.contracts.understand(ToolCall(tool, call.get("args")))
        arguments = rules.fingerprinter.arguments(understood.arguments, loose=understood.kind is not Kind.WRITE)
        registered = None
        if self._known is not None and understood.tool.name == tool:
            registered = tool in self._known
        at = call.get("at")
        if at is not None:
            self._now = at
        return self._turn.begin(understood, arguments, registered=registered, now=self._now)

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
