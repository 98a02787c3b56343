"""The input of a report: turns, their calls, and the decision on each call. No argument and no result."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.engine.vocabulary import Action

if TYPE_CHECKING:
    from collections.abc import Sequence

DECISIONS = ("ran", "failed", "nudged", "reused", "refused", "concluded", "aborted", "after")
"""What may happen to a call, from the mildest to the strongest. ``after``: its turn has ended before."""

TRIPS = DECISIONS[2:-1]
"""The decisions that a loop caused."""

_KEPT_OUT = frozenset(DECISIONS[3:])
_STOPS = frozenset(TRIPS[1:])
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
    """The same number for calls of a turn with the same tool and the same arguments."""
    decision: str = "ran"
    """One of ``DECISIONS``."""
    mode: str = ""
    """The mode of the trip; empty if there is none."""
    at: float | None = None
    """The start of the call in seconds, since 1970 or since the start of the run; None if it is not known."""
    has_run: bool = False
    """True if a model request had the call with its result: then it ran, also if it is ``concluded``."""
    is_loop: bool | None = None
    """False if the model is only told; None: unless the call is refused or ends the turn."""
    why: str = ""
    """The limit that decided, such as ``after 7 refusals``."""

    @property
    def loops(self) -> bool:
        """True if the turn of the call is a looping one."""
        return self.decision in _STOPS if self.is_loop is None else self.is_loop

    @property
    def is_kept_out(self) -> bool:
        """True if the call did not run, or would not have."""
        return self.decision in _KEPT_OUT and not (self.has_run and self.decision == "concluded")


class Spent(NamedTuple):
    """The tokens of model requests, input and output together."""

    tokens: int
    in_loops: int = 0
    """Those of requests that only asked for refused calls, or for repeats without news."""
    cost: float | None = None
    """None without a price."""
    cost_in_loops: float | None = None
    currency: str = ""
    """That of the policy's prices; empty if it names none."""
    requests: int = 0
    """The number of model requests; 0 if it is not known."""
    agents: int = 0
    """The number of agents that were started inside of its calls."""


class Run(NamedTuple):
    """One turn of a run, or a part of a turn; parts are added in order."""

    run_id: str
    turn: int | str
    """The number of the turn in its run, from 1, or a name of your own."""
    calls: Sequence[Call]
    spent: Spent | None = None
    """The tokens of its model requests; None if they are not known."""
    looped_before: bool | None = None
    """None for a whole turn, or its first part. For a later part: True if an earlier part has a loop."""
    loops: Sequence[str] = ()
    """A row for each loop: what a guarded turn does about it."""


def decision(action: Action | None, *, failed: bool = False) -> str:
    """Return the word of ``DECISIONS`` for an action of the guard; None is no loop. ``failed``: the tool failed.

    >>> decision(Action.BLOCK), decision(None, failed=True), decision(Action.NUDGE, failed=True)
    ('refused', 'failed', 'nudged')
    """
    ran = "failed" if failed else "ran"
    return ran if action is None else _OF_ACTION.get(action, ran)
