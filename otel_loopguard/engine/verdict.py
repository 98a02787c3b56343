"""The decision of one fold, and what it rests on. ``wording`` turns it into a decision with texts for the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.engine.words import Action

if TYPE_CHECKING:
    from otel_loopguard.engine.user_messages import Notes
    from otel_loopguard.engine.words import First, Record, Trip


class Verdict(NamedTuple):
    """The decision of one fold."""

    record: Record | None = None
    trip: Trip | None = None
    action: Action | None = None
    recovered: tuple[Trip, ...] = ()
    notes: Notes = ()
    """The user's messages that go to the model with it."""
    again: Notes = ()
    """Messages to stop that the model has had, and reads again."""
    refusals: int = 0
    first: First | None = None
    """The place of the trip in its turn."""
    asks: bool = False
    """``on_trip`` is to be asked. Then ``Answered`` is folded, which brings the verdict."""
    finds: bool = False
    """The user's detectors are to be asked about the outcome. Then ``Found`` is folded, which brings the verdict."""
    repeated: bool = False
    """The call was observed before."""

    @property
    def runs(self) -> bool:
        """True if the call may run."""
        return self.action is None or self.action <= Action.NUDGE

    @property
    def basis(self) -> Basis | None:
        """What the verdict rests on; None if it is about no call."""
        record = self.record
        if record is None:
            return None
        stats, limit = record.stats, record.limit
        runs = 0 if stats is None else stats.equal
        return Basis(
            runs, *record.since, reason="" if limit is None else str(limit.reason), is_known=not record.unproven
        )


class Basis(NamedTuple):
    """What a verdict rests on: the call ran before, and so much happened since its last run."""

    runs: int
    """The runs of this call with equal results, up to its last run; 0 if it never ran."""
    news: int
    changes: int
    writes: int
    waits: int
    """Of other calls since the last run; of the turn if the call never ran."""
    reason: str
    """The reason of the limit that the call is held against, as ``loopguard.limit_reason`` has it; empty if none is."""
    is_known: bool
    """False if the state may have missed something, so that nothing is proved by it."""
