"""The decision of one fold. ``wording`` turns it into a ``Decision`` with texts for the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.engine.vocabulary import Action

if TYPE_CHECKING:
    from otel_loopguard.engine.user_messages import Notes
    from otel_loopguard.engine.vocabulary import First, Record, Trip


class Verdict(NamedTuple):
    """The decision of one fold."""

    record: Record | None = None
    """The record of the call; None if the event was about no call."""
    trip: Trip | None = None
    action: Action | None = None
    """None if there is no loop."""
    recovered: tuple[Trip, ...] = ()
    """Earlier trips after which this call brought news."""
    notes: Notes = ()
    """The user's messages that go to the model with it."""
    again: Notes = ()
    """Messages to stop that the model has read before, and reads again."""
    refusals: int = 0
    """The number of refusals since the last news, this one included; 0 if nothing was refused."""
    first: First | None = None
    """The place of the trip in its turn; None if nobody is to report the trip."""
    asks: bool = False
    """True if ``on_trip`` is to be asked. Then ``Answered`` is folded, and has the final verdict."""
    finds: bool = False
    """True if the user's detectors are to look at the outcome. Then ``Found`` is folded, and has the final verdict."""
    repeated: bool = False
    """True if the call had run and was counted before: it does not count again."""

    @property
    def runs(self) -> bool:
        """True if the call may run."""
        return self.action is None or self.action <= Action.NUDGE
