"""Read runs that are recorded as JSON lines, and judge them. A line is a run."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.cli.replay.judge import trips_of
from otel_loopguard.cli.replay.loop_rows import guarded, is_refusable
from otel_loopguard.cli.replay.recorded_turn import JudgedCall, RecordedTurn
from otel_loopguard.cli.replay.summary import Missing
from otel_loopguard.engine.conversation_memory import PlaceInConversation
from otel_loopguard.engine.events import Began
from otel_loopguard.engine.values.fingerprint import Fingerprinter
from otel_loopguard.engine.values.results import ERROR_SALT, outcome_facts
from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.guard.conversation_memories import ConversationMemories
from otel_loopguard.guard.turn import is_registered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.cli.replay.judge import PolicyJudge, TripOfRun
    from otel_loopguard.cli.replay.loop_rows import GuardedTurn
    from otel_loopguard.engine.state import State
    from otel_loopguard.engine.values.pending import PendingWords
    from otel_loopguard.engine.values.results import OutcomeFacts

    Call = dict[str, Any]


class RecordedRun(NamedTuple):
    """A run of one line."""

    run_id: str
    success: bool | None
    """None if the run has no label."""
    turns: list[dict[str, Any]]
    tools: frozenset[str] | None
    """The registered tools; None if they are not recorded."""
    calls: int
    """The number of calls in all turns."""


class NotARunError(ValueError):
    """A line is JSON, but no run; the message names the fault."""


def read(line: dict[str, Any]) -> RecordedRun:
    """Return the run of a parsed line. Raise ``NotARunError``, or an error of ``MISSHAPEN``, if it is none."""
    turns = line.get("turns")
    if not isinstance(turns, list):
        raise NotARunError("`turns` must be a list")
    calls = sum([len(turn["calls"]) for turn in turns])
    success, tools = line.get("success"), line.get("tools")
    known = frozenset(tools) if isinstance(tools, list) else None
    return RecordedRun(
        str(line.get("run_id")), success if isinstance(success, bool) else None, turns, known or None, calls
    )


class _CallOfRun:
    """A call of a run, as ``RecordedTurn`` takes it."""

    __slots__ = ("_fields", "_tools")
    span_id = ""
    has_run = request_was_read = refused_in_no_loop = False

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

    @property
    def thought(self) -> float:
        return seconds(self._fields, "thought") or 0.0

    def began(self, op: int, state: State, written: int | None) -> Began:
        name = self._fields["tool"]
        resolved, arguments = state.compiled.contracts.identify(
            ToolCall(name, self._fields.get("args")), state.fingerprinter
        )
        return Began(op, resolved, arguments, is_known(self._tools, name, resolved.tool.name), written=written)

    def facts(self, arguments: Any, fingerprinter: Fingerprinter, words: PendingWords | None) -> OutcomeFacts:
        return facts_of(self._fields, arguments, fingerprinter, words)


def is_known(tools: frozenset[str] | None, name: str, found: str) -> bool | None:
    """Return True if a tool is among the registered ones; None if these are not recorded.

    ``name`` is that of the call; ``found`` is the tool behind it, another one if it is a dispatcher.
    """
    return None if tools is None else is_registered(name, found, tools)


def replay(run: RecordedRun, judge: PolicyJudge) -> tuple[list[TripOfRun], dict[int, GuardedTurn]]:
    """Judge a run, whose turns belong to one conversation.

    Return its trips, and what a guarded turn does with the calls of each turn, by the turn's position.
    """
    trips, turns = [], {}
    for number, folded in judged_turns(run, judge):
        made = folded
        if any(map(is_refusable, folded)):
            made = _judged(run, number, judge.state(FINGERPRINTER, refuses=True))
        turns[number] = guarded(folded, made, withdraws=False)  # nobody knows whether the requests would be read
        trips += trips_of(folded, number, turns[number].figures.end)
    return trips, turns


def judged_turns(run: RecordedRun, judge: PolicyJudge) -> Iterator[tuple[int, list[JudgedCall]]]:
    """Judge a run, and yield the position of each turn that has calls, with the calls in the order of their ends."""
    memory = ConversationMemories() if judge.compiled.remembers else None
    for number, turn in enumerate(run.turns):
        if turn["calls"]:
            state = judge.state(FINGERPRINTER)
            state.place = None if memory is None else PlaceInConversation(memory, "", number)
            yield number, _judged(run, number, state)


def _judged(run: RecordedRun, number: int, state: State) -> list[JudgedCall]:
    """Judge the calls of one turn of a run."""
    folded: list[JudgedCall] = []
    turn = RecordedTurn(state, folded.append)
    for call in run.turns[number]["calls"]:
        turn.begin(_CallOfRun(call, run.tools))
    turn.finish(())
    return folded


def missing(run: RecordedRun) -> tuple[Missing, ...]:
    """Return the facts that this run does not have, although some mode needs them."""
    tools = () if run.tools is not None else (Missing.TOOLS,)
    for turn in run.turns:
        if turn["calls"]:
            timed = turn["calls"][0].get("at") is not None
            return tools if timed else (*tools, Missing.TIMES)
    return tools


def seconds(call: Call, key: str) -> float | None:
    """Return a time of a call, in seconds; None if it has none. Raise ``NotARunError`` if it is no finite number."""
    time = call.get(key)
    if time is None:
        return None
    if (type(time) is float or type(time) is int) and isfinite(time):
        return float(time)
    raise NotARunError(f"`{key}` must be a number of seconds")


# --- the recorded outcome --------------------------------------------------------------------------------------------

_CUT = 2_000
_AS_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")
_64_BITS = 0xFFFFFFFFFFFFFFFF


class RunFingerprinter(Fingerprinter):
    """Makes fingerprints that are compared within one run and then dropped, so that they need no key."""

    __slots__ = ()

    def of(self, data: bytes) -> int:
        """Return Python's own hash: it takes a sixth of the time of the keyed BLAKE2b of a live guard."""
        return hash(data) & _64_BITS


FINGERPRINTER = RunFingerprinter()


def facts_of(
    call: dict[str, Any], arguments: Any, fingerprinter: Fingerprinter, pending_words: PendingWords | None
) -> OutcomeFacts:
    """Return the facts about a recorded outcome. Results with a ``result_hash`` are equal if that is equal."""
    result, hashed = call.get("result"), call.get("result_hash")
    if not hashed:
        return outcome_facts(Outcome(result, None, call.get("is_error")), arguments, fingerprinter, pending_words)
    try:
        digest = int(hashed[:16], 16)
    except ValueError:  # a hash in another notation
        digest = fingerprinter.of(hashed.encode())
    outcome = Outcome(result, None, call.get("is_error"), False, digest)  # noqa: FBT003 - keywords cost a third more
    facts = outcome_facts(outcome, arguments, fingerprinter, pending_words)
    if type(result) is str and len(result) >= _CUT:
        # The recorded text may be cut off, and the rest makes a difference. The hash stands for it, as letters, so that
        # it is not masked as an id.
        facts = facts._replace(
            digest=digest ^ ERROR_SALT if facts.is_error else digest,
            data=facts.data + b" " + hashed.translate(_AS_LETTERS).encode(),
        )
    return facts
