"""Judge recorded turns by one policy, with the engine's own ``fold``, and name the tools of their calls.

A recorded call has run, whatever the policy would have done. So every refusal is listed, not only the first.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from otel_loopguard import semconv
from otel_loopguard.cli.replay.recorded_texts import RecordedTexts
from otel_loopguard.engine.compiled import CompiledPolicy
from otel_loopguard.engine.conversation_memory import PlaceInConversation
from otel_loopguard.engine.quoting import clean_name, is_plain_name
from otel_loopguard.engine.state import State
from otel_loopguard.engine.values.normalise import utf8
from otel_loopguard.engine.vocabulary import OVER_TURNS, Action, Record, Sameness
from otel_loopguard.guard.conversation_memories import ConversationMemories

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_loopguard.cli.replay.recorded_texts import AskedTrip
    from otel_loopguard.cli.replay.recorded_turn import JudgedCall
    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.tools.contracts import Tool
    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.engine.vocabulary import Trip
    from otel_loopguard.spans.ancestry import Ancestry, TurnName
    from otel_loopguard.spans.otlp import ToolSpan


MODEL_REQUEST = "(model request)"
"""Stands for the tool of a trip that a model request has."""
_is_name_hash = re.compile(r"blake2b-64:([0-9a-f]{8})[0-9a-f]{8}").fullmatch


class TripOfRun(NamedTuple):
    """A trip on one call of a run."""

    turn: int
    """The position of the turn in the run, from 0."""
    call: int
    """The position of the call in the turn, from 0."""
    tool: str
    """As ``shown_tool`` returns it."""
    mode: str
    action: Action
    count: int  # type: ignore[assignment]  # hides tuple.count
    lost: bool = False
    """True if the call was refused, and its recorded result was new."""
    limit: int = 0
    """The count at which the action is due."""
    has_run: bool = False
    """True if a model request had the call with its result: then it had run before the guard learned of it."""

    is_loop: bool = True
    """False if the model would only be told, or a budget is spent."""
    is_after: bool = False
    """True if a guarded turn has ended before the call."""
    of_request: bool = False
    """True if it is the trip of a model request, by its texts: ``call`` is that of the next call."""

    @property
    def is_refused(self) -> bool:
        """True if the guard would have refused the call."""
        return self.action >= Action.REUSE and not self.has_run and not self.of_request

    @property
    def is_kept_out(self) -> bool:
        """True if the call would not have run: it is refused, or the turn would have been over."""
        return self.is_refused or (self.is_after and not self.of_request)


class Reach(NamedTuple):
    """The strength of a trip of a run."""

    action: Action
    is_refused: bool
    is_loop: bool

    @property
    def stops(self) -> bool:
        """True if more is done than that the model is told."""
        return self.is_loop or self.action > Action.NUDGE


Reached: TypeAlias = "frozenset[Reach]"
"""The strengths of the trips of a run."""


def reached(trips: Iterable[TripOfRun], earlier: Reached) -> Reached:
    """Return what a run reached with these trips before its end, given what it reached in its earlier parts."""
    return earlier.union(Reach(trip.action, trip.is_refused, trip.is_loop) for trip in trips if not trip.is_after)


class PolicyJudge:
    """Judges turns by one policy. A policy that only observes is taken as if it refused."""

    def __init__(self, policy: Policy) -> None:
        if policy.action is Action.OBSERVE:
            policy = replace(policy, action=Action.BLOCK)
        if policy.hash_key is None:
            policy = replace(policy, hash_key=os.urandom(16))
        self.compiled = CompiledPolicy(policy)
        self.memory = ConversationMemories()
        self.texts = RecordedTexts(self.compiled)

    def __reduce__(self) -> tuple[type[PolicyJudge], tuple[Policy]]:
        """Make the judge again in another process, with the same key."""
        return PolicyJudge, (self.compiled.policy,)

    def state(self, fingerprinter: Fingerprinter | None = None, *, refuses: bool = False) -> State:
        """Return the state of a new turn of recorded calls. Fingerprints are this fingerprinter's, or the policy's.

        ``refuses``: return that of a guarded turn, in which a refused call does not run.
        """
        return State(self.compiled, is_recorded=not refuses, fingerprinter=fingerprinter)

    @property
    def turns_by(self) -> str:
        """The widest source of a turn of spans: ``conversation``, or ``agent_span`` if the policy compares turns."""
        return "agent_span" if self.compiled.remembers else "conversation"

    def place_of(self, turn: TurnName, span: ToolSpan, ancestry: Ancestry) -> PlaceInConversation | None:
        """Return the place of a turn in the conversation of its span; None if the policy or the span knows of none."""
        if not self.compiled.remembers:
            return None
        conversation = span.conversation if span.own else ancestry.agent_of(span)[0]
        if conversation is None:
            return None
        number = self.compiled.fingerprinter.of(utf8(f"{turn.source} {turn.id}"))
        return PlaceInConversation(self.memory, f"{span.service} {conversation}", number)


def trips_of(folded: Iterable[JudgedCall], turn: int = 0, end: int | None = None) -> list[TripOfRun]:
    """Return the trips to list of the calls of a turn, in the order of the calls.

    ``turn`` is its position. ``end`` is the position of the call at which a guarded turn ends, or None.
    """
    trips = [_trip_of(one, one.trip, turn, end) for one in folded if one.trip is not None and is_listed(one.trip)]
    trips.sort(key=attrgetter("call"))
    return trips


def _trip_of(folded: JudgedCall, trip: Trip, turn: int, end: int | None) -> TripOfRun:
    record = folded.record
    lost = trip.action >= Action.REUSE and record.sameness is not None and result_was_new(record)
    tool = shown_tool(record.resolved.tool, record.registered)
    mode, has_run = str(trip.mode), folded.call.has_run
    is_loop = (trip.verdict > Action.NUDGE and not trip.is_budget) or trip.reason == OVER_TURNS
    is_after = end is not None and folded.position > end
    place = turn, folded.position
    return TripOfRun(*place, tool, mode, trip.action, trip.count, lost, trip.limit, has_run, is_loop, is_after)


def trip_of_request(asked: AskedTrip, call: int, end: int | None) -> TripOfRun:
    """Return the trip to list of a model request. ``call`` is the position of the next call, ``end`` is as above."""
    trip = asked.trip
    place, numbers = (0, call, MODEL_REQUEST, str(trip.mode), trip.action), (trip.count, False, trip.limit)
    is_loop, is_after = trip.verdict > Action.NUDGE, end is not None and call > end
    return TripOfRun(*place, *numbers, False, is_loop, is_after, of_request=True)  # noqa: FBT003 - a field


def is_listed(trip: Trip) -> bool:
    """Return True if a trip is to be listed: all are but those that the policy only wants observed within a turn."""
    return trip.action >= Action.NUDGE or trip.reason == OVER_TURNS


def shown_tool(tool: Tool, registered: bool | None) -> str:  # noqa: FBT001 - as in a record
    """Return a tool's name for tables and reports: cleaned, or ``_unknown:`` and a hash if the model made the name up.

    If it is not known whether the tool exists (``registered`` is None), a name without the form of one counts as made
    up. The hash is the beginning of ``loopguard.tool.name_hash`` under the same hash key.
    """
    name = tool.name
    hashed = _is_name_hash(name)  # our own spans have the hash alone
    if not hashed and (registered or (registered is None and is_plain_name(name))):
        return clean_name(name)
    return f"{semconv.UNKNOWN_TOOL}:{hashed[1] if hashed else f'{tool.digest:016x}'[:8]}"


def result_was_new(record: Record) -> bool:
    """Return True if the recorded result of a call is new: no earlier run of the call had it."""
    if record.sameness is Sameness.FIRST:
        return True
    return record.news and record.sameness in (Sameness.DIFFERENT, Sameness.PROGRESS)
