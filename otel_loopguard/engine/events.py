"""All that can happen to a turn. An event has facts only: no verdict, no text, no value of a call.

A live call, a call of another process, one that was read in a model request and one that was recorded are the same
events. So ``fold`` judges all of them by the same lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable

    from otel_loopguard.engine.tools.contracts import ResolvedCall
    from otel_loopguard.engine.user_messages import UserMessage
    from otel_loopguard.engine.values.results import OutcomeFacts
    from otel_loopguard.engine.verdict import Verdict
    from otel_loopguard.engine.words import Record, Trip


class Began(NamedTuple):
    """A call is to be judged. It starts unless it is refused."""

    op: int
    """Identifies the event. An event of a turn that is not shared has a small number."""
    resolved: ResolvedCall
    arguments: int
    """The keyed fingerprint of the arguments."""
    registered: bool | None = None
    call_id: Hashable = None
    """The id of the call, or its fingerprint; None if it has none."""
    batch: int | None = None
    """Identifies the model message with the call; None if that is not known."""
    written: int | None = None
    """The turn's tick when the model wrote the message. None in a shared turn: its first call marks the tick."""
    may_exist: bool = False
    """There may be tools that are not registered."""
    custom: tuple[Trip, ...] = ()
    """The trips of the policy's own detectors, which ran before."""
    asks: bool = False
    """``on_trip`` is asked about a trip. The call is settled by ``Answered``."""
    reusable: bool = False
    """The process that makes the call has an earlier result of it."""
    ran: bool | None = None
    """Known if the call was decided before: whatever is found now, it has run, or was refused."""
    unproven: bool = False
    """The state may have missed something: what it shows is no proof."""
    judged: bool = True
    """False for a call that is only remembered, because too little of it is known."""


class Ended(NamedTuple):
    """A call ended. ``facts`` is None if it was cancelled."""

    op: int
    began: Began
    record: Record | None
    """As the verdict about its begin had it."""
    facts: OutcomeFacts | None
    exists: bool = False
    """The tool exists, though it is not registered."""
    child_news: bool = False
    """A nested run brought news."""
    nested: int = 0
    """Calls of nested runs that are not counted yet."""
    asks: bool = False
    """As of ``Began``."""
    finds: bool = False
    """The user's detectors are asked about the outcome if nothing else was found. ``Found`` brings their trips."""


class Ran(NamedTuple):
    """A call was found that has run already, for ``ran`` seconds, until ``ago`` seconds before."""

    op: int
    began: Began
    ended: Ended
    ran: float
    ago: float = 0.0


class Found(NamedTuple):
    """The user's detectors have looked at an outcome: these are their trips."""

    op: int
    of: Any
    """The event: ``Ended``, or ``Ran``."""
    asked: Verdict
    """The verdict that asked."""
    custom: tuple[Trip, ...]


class Answered(NamedTuple):
    """``on_trip`` has answered about the trip of an event: this is the trip now."""

    op: int
    of: Any
    """The event."""
    asked: Verdict
    """The verdict that asked."""
    trip: Trip
    ran: bool | None = None
    unproven: bool = False
    """Both as of ``Began``."""


class Said(NamedTuple):
    """The user sent a message."""

    op: int
    message: UserMessage


class Lost(NamedTuple):
    """The model cannot see the results of these calls any more."""

    op: int
    keys: tuple[int, ...]


class Concluded(NamedTuple):
    """A model request is made without tools."""

    op: int


class Nested(NamedTuple):
    """A call of a nested turn was started."""

    op: int


class Reached(NamedTuple):
    """A trip is reported that no verdict of this turn has."""

    op: int
    trip: Trip


class Gap(NamedTuple):
    """Events may have been lost here: whatever had been shown before proves nothing any more."""

    op: int


class TurnBegan(NamedTuple):
    """A turn began in a cell that others were in before."""

    op: int
    number: int
    turn_id: str


class TurnEnded(NamedTuple):
    """The turn is over: it takes no messages of the user."""

    op: int
