"""Replay runs recorded as JSON lines, one run a line."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.cli.replay.judge import trips_of
from otel_loopguard.cli.replay.outcomes import FINGERPRINTER, facts_of
from otel_loopguard.cli.replay.recorded_turn import Folded, RecordedTurn
from otel_loopguard.cli.replay.summary import Missing
from otel_loopguard.engine.conversation_memory import PlaceInConversation
from otel_loopguard.engine.events import Began
from otel_loopguard.engine.words import ToolCall
from otel_loopguard.guard.conversation_memories import ConversationMemories
from otel_loopguard.guard.turn import is_registered

if TYPE_CHECKING:
    from otel_loopguard.cli.replay.judge import PolicyJudge, TripOfRun
    from otel_loopguard.engine.state import State
    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.engine.values.pending import PendingWords
    from otel_loopguard.engine.values.results import OutcomeFacts

    Call = dict[str, Any]


class RecordedRun(NamedTuple):
    """A run of one line."""

    run_id: str
    success: bool | None
    turns: list[dict[str, Any]]
    tools: frozenset[str] | None
    """The registered tools; None if they are not recorded."""
    calls: int


class NotARunError(ValueError):
    """The line is JSON, but no run; the message names the fault."""


def read(line: dict[str, Any]) -> RecordedRun:
    """Read a parsed line as a run."""
    turns = line.get("turns")
    if not isinstance(turns, list):
        raise NotARunError("turns must be a list")
    calls = sum([len(turn["calls"]) for turn in turns])
    success, tools = line.get("success"), line.get("tools")
    known = frozenset(tools) if isinstance(tools, list) else None
    return RecordedRun(
        str(line.get("run_id")), success if isinstance(success, bool) else None, turns, known or None, calls
    )


class _CallOfRun:
    """A call of a run, as ``RecordedTurn`` takes it."""

    __slots__ = ("_fields", "_tools")
    has_run = stopped_by_user = False

    def __init__(self, fields: Call, tools: frozenset[str] | None) -> None:
        self._fields = fields
        self._tools = tools

    @property
    def at(self) -> float | None:
        return seconds(self._fields, "at")

    @property
    def ended(self) -> float | None:
        return seconds(self._fields, "ended")

    @property
    def step(self) -> object:
        return self._fields.get("step")

    def began(self, op: int, state: State, written: int | None) -> Began:
        name = self._fields["tool"]
        resolved, arguments = state.compiled.contracts.identify(
            ToolCall(name, self._fields.get("args")), state.fingerprinter
        )
        return Began(op, resolved, arguments, is_known(self._tools, name, resolved.tool.name), written=written)

    def facts(self, arguments: Any, fingerprinter: Fingerprinter, words: PendingWords | None) -> OutcomeFacts:
        return facts_of(self._fields, arguments, fingerprinter, words)


def is_known(tools: frozenset[str] | None, name: str, found: str) -> bool | None:
    """Return ``is_registered`` of a call by this name; None if the registered tools are not recorded."""
    return None if tools is None else is_registered(name, found, tools)


def replay(run: RecordedRun, judge: PolicyJudge) -> list[TripOfRun]:
    """Return the trips of a run. Its turns are those of one conversation."""
    trips: list[TripOfRun] = []
    memory = ConversationMemories() if judge.compiled.remembers else None
    for number, calls in enumerate(turn["calls"] for turn in run.turns):
        if not calls:
            continue
        folded: list[Folded] = []
        turn = RecordedTurn(judge.state(FINGERPRINTER), folded.append)
        turn.state.place = None if memory is None else PlaceInConversation(memory, "", number)
        for call in calls:
            turn.begin(_CallOfRun(call, run.tools))
        turn.end_until(None)
        trips += trips_of(folded, number)
    return trips


def missing(run: RecordedRun) -> tuple[Missing, ...]:
    """Return the facts that some mode needs and that this run does not have."""
    tools = () if run.tools is not None else (Missing.TOOLS,)
    for turn in run.turns:
        if turn["calls"]:
            timed = turn["calls"][0].get("at") is not None
            return tools if timed else (*tools, Missing.TIMES)
    return tools


def seconds(call: Call, key: str) -> float | None:
    """Return a time of a call; None if it has none."""
    time = call.get(key)
    if time is None:
        return None
    if (type(time) is float or type(time) is int) and isfinite(time):
        return float(time)
    raise NotARunError(f"`{key}` must be a number of seconds")
