"""The input of a report: runs, their calls, and the decision on each. No argument and no result."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.engine.words import Action

if TYPE_CHECKING:
    from collections.abc import Sequence

DECISIONS = ("ran", "failed", "nudged", "reused", "refused", "concluded", "aborted")
"""The possible fates of a call, from the mildest to the strongest."""

TRIPS = DECISIONS[2:]
"""The decisions that a loop caused."""

_KEPT_OUT = frozenset(DECISIONS[3:])
_OF_ACTION = {
    Action.NUDGE: "nudged",
    Action.REUSE: "reused",
    Action.BLOCK: "refused",
    Action.CONCLUDE: "concluded",
    Action.ABORT: "aborted",
}


class Call(NamedTuple):
    """One call of a tool."""

    tool: str
    identity: int
    """Equal for equal calls of a turn (tool and arguments): a digest or a number, never an argument."""
    decision: str = "ran"
    mode: str = ""
    """The mode that tripped; empty if none did."""
    at: float | None = None
    """The start of the call in seconds, since 1970 or since the start of the run."""
    has_run: bool = False
    """It was read in a model request: it ran, if the turn was not over before, also if it is concluded."""

    @property
    def is_kept_out(self) -> bool:
        """True if the call does not run."""
        return self.decision in _KEPT_OUT and not (self.has_run and self.decision == "concluded")


class Spent(NamedTuple):
    """The tokens of model requests, input and output together, and their cost if they have prices."""

    tokens: int
    in_loops: int = 0
    cost: float | None = None
    cost_in_loops: float | None = None


class Run(NamedTuple):
    """One turn of a run. A turn may be passed in parts, as several of these in order."""

    run_id: str
    turn: int | str
    calls: Sequence[Call]
    spent: Spent | None = None
    """The tokens of its model requests; None if they are not known."""
    looped_before: bool | None = None
    """For a later part of a turn: True if an earlier part has a trip. None for a whole turn or its first part."""


def decision(action: Action | None, *, failed: bool = False) -> str:
    """Return the word for a guard's action. A nudge on a failed call is a nudge."""
    ran = "failed" if failed else "ran"
    return ran if action is None else _OF_ACTION.get(action, ran)
