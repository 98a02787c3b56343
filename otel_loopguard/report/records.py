"""What a report is made of: runs, their calls, and what was decided about each. Never an argument, never a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.core.model import Action

if TYPE_CHECKING:
    from collections.abc import Sequence

DECISIONS = ("ran", "failed", "nudged", "reused", "refused", "aborted")
"""What can become of a call, from the mildest to the strongest."""

TRIPS = DECISIONS[2:]
"""Those that a loop was the reason of."""

_OF_ACTION = {Action.NUDGE: "nudged", Action.REUSE: "reused", Action.BLOCK: "refused", Action.ABORT: "aborted"}


class Call(NamedTuple):
    """One call of a tool."""

    tool: str
    identity: int
    """Equal for equal calls of a turn (tool and arguments); anything that is no argument: a digest, or a number."""
    decision: str = "ran"
    mode: str = ""
    """The mode that tripped; empty where none did."""
    at: float | None = None
    """When it began, in seconds: since 1970, or since the run began."""


class Run(NamedTuple):
    """One turn of a run. A turn that is handed over in parts comes as several of these, one after the other."""

    run_id: str
    turn: int | str
    calls: Sequence[Call]


def decision(action: Action | None, *, failed: bool = False) -> str:
    """The word for what was done: a nudge on a call that failed is a nudge."""
    ran = "failed" if failed else "ran"
    return ran if action is None else _OF_ACTION.get(action, ran)
