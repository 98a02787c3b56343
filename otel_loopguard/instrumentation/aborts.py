"""How a run is ended from inside a framework that feeds exceptions back to its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.turn import model_text
from otel_loopguard.errors import ToolLoopError

if TYPE_CHECKING:
    from otel_loopguard.core.model import Trip
    from otel_loopguard.turns.scope import Scope


class LoopAbort(BaseException):
    """Carries a ``ToolLoopError`` past ``except Exception``. Never gets past the run boundary that expects it."""

    def __init__(self, error: ToolLoopError) -> None:
        super().__init__(str(error))
        self.error = error


def abort_error(
    trip: Trip | None, shown_name: str, scope: Scope, kind: type[ToolLoopError] | None = None
) -> BaseException | None:
    """What to raise to end the run.

    An error of this kind, which the framework lets out; else the carrier where a boundary of ours is further up, else
    the error itself. The boundary is told, too: code between may keep the carrier as a result, as ``asyncio.gather``
    does. Without a trip: the same again, where this run was to end already.
    """
    run_state = scope.run_state
    if trip is None:
        return None if run_state is None or run_state.error is None else LoopAbort(run_state.error)
    error = (kind or ToolLoopError)(
        model_text.abort(trip, scope.turn.policy, shown_name),
        tool_name=trip.tool,
        mode=str(trip.mode),
        repeats=trip.count,
        limit=trip.limit,
        turn_id=scope.turn.id,
    )
    if run_state is None or kind is not None:
        return error
    run_state.error = error
    return LoopAbort(error)


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
