"""All that can happen to a turn, as events. An event states facts; ``fold`` alone decides.

A live call, a call of another process, one that was read in a model request and one that was recorded are the same
events. So ``fold`` judges all of them by the same lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable

    from otel_loopguard.engine.detectors.run_budget import PlaceInTree
    from otel_loopguard.engine.ledger import Ledger
    from otel_loopguard.engine.tools.contracts import ResolvedCall
    from otel_loopguard.engine.user_messages import UserMessage
    from otel_loopguard.engine.values.results import OutcomeFacts
    from otel_loopguard.engine.verdict import Verdict
    from otel_loopguard.engine.vocabulary import Record, Trip


class Began(NamedTuple):
    """A call is to be judged. It starts unless it is refused."""

    op: int
    """Identifies the event: unique among all processes of a shared turn, a count in the others."""
    resolved: ResolvedCall
    arguments: int
    """The keyed fingerprint of the arguments."""
    registered: bool | None = None
    """True if the tool exists; None if that cannot be known."""
    call_id: Hashable = None
    """The id of the call, or its fingerprint; None if it has none."""
    batch: int | None = None
    """Identifies the model message with the call; None if that is not known."""
    written: int | None = None
    """The turn's tick when the model wrote the message. None in a shared turn: its first call marks the tick."""
    may_exist: bool = False
    """True if tools may exist that are not registered."""
    custom: tuple[Trip, ...] = ()
    """The trips of the user's detectors, which ran before the fold."""
    asks: bool = False
    """True if the policy has ``on_trip``: it is asked about a trip, and then ``Answered`` settles the call."""
    reusable: bool = False
    """True if the process that makes the call has an earlier result of it."""
    ran: bool | None = None
    """True or False if it was decided before that the call runs or is refused: the fold cannot change that."""
    unproven: bool = False
    """True if the state may have missed an event: what it shows is no proof."""
    judged: bool = True
    """False for a call that is only remembered, because too little of it is known."""
    around: int = 0
    """The number of equal calls that still run and that this one is made inside of, by nested turns."""
    place: PlaceInTree | None = None
    """The place of the call in the tree of its turn, if the policy has budgets."""


class Ended(NamedTuple):
    """A call ended. ``facts`` is None if it was cancelled."""

    op: int
    began: Began
    record: Record | None
    """The record that the verdict about ``began`` had; None if both events are folded as one (``Ran``)."""
    facts: OutcomeFacts | None
    exists: bool = False
    """True if the tool exists, though it is not registered."""
    child_news: bool = False
    """True if a nested turn brought news."""
    nested: int = 0
    """The number of calls of nested turns that a shared turn has not counted yet."""
    asks: bool = False
    """As in ``Began``."""
    finds: bool = False
    """True if the policy has detectors of the user: they look at the outcome if nothing else was found in it."""


class Ran(NamedTuple):
    """A call that has run is judged afterwards. It ran for ``ran`` seconds, and ended ``ago`` seconds before now."""

    op: int
    began: Began
    ended: Ended
    ran: float
    ago: float = 0.0


class Found(NamedTuple):
    """The user's detectors have looked at an outcome: these are their trips."""

    op: int
    of: Any
    """The event with the outcome: ``Ended``, or ``Ran``."""
    asked: Verdict
    """The verdict about that event, which had ``finds``."""
    custom: tuple[Trip, ...]


class Answered(NamedTuple):
    """``on_trip`` has answered about the trip of an event: this is the trip now."""

    op: int
    of: Any
    """The event with the trip: ``Began``, ``Ended`` or ``Ran``."""
    asked: Verdict
    """The verdict about that event, which had ``asks``."""
    trip: Trip
    ran: bool | None = None
    """As in ``Began``."""
    unproven: bool = False
    """As in ``Began``."""


class Said(NamedTuple):
    """The user sent a message."""

    op: int
    message: UserMessage


class Lost(NamedTuple):
    """The model cannot see the results of these calls any more."""

    op: int
    keys: tuple[int, ...]
    """The calls, as ``Record.key`` has them."""


class Thought(NamedTuple):
    """A model request ended ``ago`` seconds before now: until then, the model thought for these seconds."""

    op: int
    seconds: float
    ago: float = 0.0


class Concluded(NamedTuple):
    """The next model request is made without its tools."""

    op: int


class Nested(NamedTuple):
    """A call of a nested turn was started."""

    op: int


class Asking(NamedTuple):
    """A request to a model is about to be sent."""

    op: int
    place: PlaceInTree | None
    """As in ``Began``."""
    found: Trip | None = None
    """The trip that the texts of its conversation have, if any."""


class Writing(NamedTuple):
    """A model is writing, and what it has written so far has a trip."""

    op: int
    found: Trip


class Paid(NamedTuple):
    """A request to a model was sent, its reply told its usage, or a nested turn began."""

    op: int
    more: Ledger
    """The part that is added to the ledger."""
    is_nested: bool = False
    """True if it was in a nested turn."""


class Reached(NamedTuple):
    """A trip is reported, and no verdict had its place in the turn: the call was recorded, or that was forgotten."""

    op: int
    trip: Trip


class Gap(NamedTuple):
    """Events may have been lost here, so what was known before proves nothing any more."""

    op: int


class TurnBegan(NamedTuple):
    """A turn began in a cell of the store. Earlier turns of its conversation may have been in the same cell."""

    op: int
    number: int
    """The keyed fingerprint of the turn's id."""
    turn_id: str


class TurnEnded(NamedTuple):
    """The turn is over: it takes no messages of the user."""

    op: int
