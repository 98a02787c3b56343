"""How a run is ended from inside a framework that feeds exceptions back to its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core import wording
from otel_loopguard.errors import ToolLoopError

if TYPE_CHECKING:
    from otel_loopguard.core.model import Trip
    from otel_loopguard.turns.scope import Scope


class LoopAbort(BaseException):
    """Carries a ``ToolLoopError`` past ``except Exception``. Never gets past the run boundary that expects it."""

    def __init__(self, error: ToolLoopError) -> None:
        super().__init__(str(error))
        self.error = error


def abort_error(trip: Trip, shown_name: str, scope: Scope, kind: type[ToolLoopError] | None = None) -> BaseException:
    """What to raise to end the run.

    An error of this kind, which the framework lets out; else the carrier where a boundary of ours is further up, else
    the error itself.
    """
    error = (kind or ToolLoopError)(
        wording.abort(trip, scope.turn.policy, shown_name),
        tool_name=trip.tool,
        mode=str(trip.mode),
        repeats=trip.count,
        limit=trip.limit,
        turn_id=scope.turn.id,
    )
    return LoopAbort(error) if scope.boundary and kind is None else error


def carried(error: BaseException) -> ToolLoopError | None:
    """The ``ToolLoopError`` inside a carrier, or inside a group that holds one."""
    if isinstance(error, LoopAbort):
        return error.error
    # Exception groups, also the backport's on Python 3.10, have these.
    parts = getattr(error, "exceptions", ())
    if isinstance(parts, tuple):
        for part in parts:
            found = carried(part) if isinstance(part, BaseException) else None
            if found is not None:
                return found
    return None


def grouped(error: BaseException | None) -> ToolLoopError | None:
    """The ``ToolLoopError`` that is all an exception group holds: task groups around a run wrap it in one."""
    parts = getattr(error, "exceptions", ())
    if isinstance(parts, tuple) and len(parts) == 1:
        return parts[0] if isinstance(parts[0], ToolLoopError) else grouped(parts[0])
    return None
