"""The events of a shared turn as bytes: keyed fingerprints, counters and flags, and no value of a call.

The name of a tool that does not exist is output of a model, so it is sealed, as messages of the user are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from otel_loopguard.engine.tools.contracts import ResolvedCall
from otel_loopguard.engine.values.compare import DetailedFingerprints
from otel_loopguard.engine.values.results import AnswerPrints, OutcomeFacts, Prints
from otel_loopguard.engine.words import Action, Hints, Kind, Sameness, Trip
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.engine.tools.contracts import Contracts

VERSION = 1
"""Written first. An event of another version is not read."""


class TurnBegan(NamedTuple):
    """A turn of the log's conversation began. Another one with the same id changes nothing."""

    sealed_id: str


class TurnEnded(NamedTuple):
    """The turn is over: it takes no messages of the user."""


class CallBegan(NamedTuple):
    """A call is to be judged, and starts unless it is refused."""

    tool: str
    """Sealed if ``registered`` is False."""
    digest: int
    hints: list[bool | None] | None
    kind: str
    arguments: int
    registered: bool | None
    call_id: int
    """The keyed fingerprint of the call's id; 0 if it has none."""
    batch: int
    """Identifies the model message that has the call; 0 if that is not known."""
    may_exist: bool
    custom: list[list[Any]]
    """The trips of the policy's own detectors."""


class CallEnded(NamedTuple):
    """A call ended."""

    began: int
    """The identity of the event with which it began."""
    cancelled: bool = False
    exists: bool = False
    child_news: bool = False
    nested_calls: int = 0
    digest: int = 0
    is_error: bool = False
    shape: int = 0
    transient: bool = False
    pending: bool = False
    empty: bool = False
    brief: bool = False
    answer: list[Any] | None = None
    details: list[Any] | None = None
    sameness: str | None = None


class CallObserved(NamedTuple):
    """A call was found that has run already."""

    began: list[Any]
    ended: list[Any]
    ran: float
    """Its seconds."""


class ResultsLost(NamedTuple):
    """The model cannot see the results of these calls any more."""

    keys: list[int]


class Concluded(NamedTuple):
    """A model request was sent without tools."""


class UserSpoke(NamedTuple):
    """The user sent a message to the turn."""

    sealed: str
    stop: bool


_TYPES: dict[str, Any] = {
    "turn": TurnBegan,
    "over": TurnEnded,
    "begin": CallBegan,
    "end": CallEnded,
    "observe": CallObserved,
    "lose": ResultsLost,
    "conclude": Concluded,
    "say": UserSpoke,
}
_NAMES = {kind: name for name, kind in _TYPES.items()}


def to_bytes(turn: int, event: tuple[Any, ...]) -> bytes:
    """Write an event of a turn, which is given by a number; 0 = the turn that the log is in."""
    return orjson.dumps([VERSION, turn, _NAMES[type(event)], *event])


def timed(data: bytes, at: float) -> bytes:
    """Add the time of an event that is appended later than it happened."""
    return b"%.6f %s" % (at, data)


def from_bytes(data: bytes) -> tuple[float | None, int, Any] | None:
    """Read the added time, the turn and the event that ``to_bytes`` wrote; None if they cannot be read."""
    try:
        at = None
        if data[:1] != b"[":
            time, _, data = data.partition(b" ")
            at = float(time)
        version, turn, name, *fields = orjson.loads(data)
        return (at, turn, _TYPES[name](*fields)) if version == VERSION else None
    except (ValueError, TypeError, KeyError) as error:
        pass_interrupt(error)
        return None


def call_began(
    resolved: ResolvedCall,
    arguments: int,
    *,
    registered: bool | None,
    call_id: int,
    batch: int,
    may_exist: bool,
    custom: Sequence[Trip],
    seal: Callable[[str], str],
) -> CallBegan:
    """Describe a call that is to be judged."""
    tool = resolved.tool
    return CallBegan(
        tool=seal(tool.name) if registered is False else tool.name,
        digest=tool.digest,
        hints=None if tool.hints is None else list(tool.hints),
        kind=str(resolved.kind),
        arguments=arguments,
        registered=registered,
        call_id=call_id,
        batch=batch,
        may_exist=may_exist,
        custom=[list(trip._replace(tool="")) for trip in custom],
    )


def resolved_call(began: CallBegan, contracts: Contracts, unseal: Callable[[str], str | None]) -> ResolvedCall:
    """Find the tool of a call of another process. Its arguments are not known here."""
    hints = None if began.hints is None else Hints(*began.hints)
    name = unseal(began.tool) if began.registered is False else began.tool
    tool = contracts.unnamed(began.digest) if name is None else contracts.tool(name, hints)
    return ResolvedCall(tool, None, Kind(began.kind))


def custom_trips(began: CallBegan, tool: str) -> tuple[Trip, ...]:
    """Return the trips of the policy's own detectors."""
    return tuple(trip_of(values, tool) for values in began.custom)


def trip_of(values: list[Any], tool: str) -> Trip:
    """Read a trip, which was written without the name of its tool."""
    trip = Trip(*values)
    return trip._replace(tool=tool, verdict=Action(trip.verdict), action=Action(trip.action), kind=Kind(trip.kind))


def facts_of(ended: CallEnded) -> OutcomeFacts:
    """Return the facts about the outcome of a call."""
    details = None if ended.details is None else DetailedFingerprints.from_list(ended.details)
    sameness = None if ended.sameness is None else Sameness(ended.sameness)
    return OutcomeFacts(
        digest=ended.digest,
        data=b"",
        is_error=ended.is_error,
        shape=ended.shape,
        transient=ended.transient,
        pending=ended.pending,
        empty=ended.empty,
        brief=ended.brief,
        prints=Prints(None if ended.answer is None else AnswerPrints(*ended.answer), details, sameness),
    )


def call_ended(
    began: int, facts: OutcomeFacts, *, exists: bool = False, child_news: bool = False, nested_calls: int = 0
) -> CallEnded:
    """Describe a call that ended with an outcome."""
    prints = facts.prints or Prints(None, None, None)
    return CallEnded(
        began,
        exists=exists,
        child_news=child_news,
        nested_calls=nested_calls,
        digest=facts.digest,
        is_error=facts.is_error,
        shape=facts.shape,
        transient=facts.transient,
        pending=facts.pending,
        empty=facts.empty,
        brief=facts.brief,
        answer=None if prints.answer is None else list(prints.answer),
        details=None if prints.details is None else prints.details.to_list(),
        sameness=None if prints.sameness is None else str(prints.sameness),
    )
