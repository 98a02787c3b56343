"""Abort a run from inside a framework that feeds exceptions back to its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.turn import model_text
from otel_loopguard.errors import ToolLoopError

if TYPE_CHECKING:
    from otel_loopguard.core.model import Trip
    from otel_loopguard.turns.scope import Scope


class LoopAbort(BaseException):
    """Carry a ``ToolLoopError`` past ``except Exception``. The wrapper of the run turns it into the error again."""

    def __init__(self, error: ToolLoopError) -> None:
        super().__init__(str(error))
        self.error = error


def abort_error(
    trip: Trip | None, shown_name: str, scope: Scope, kind: type[ToolLoopError] | None = None
) -> BaseException | None:
    """Return the exception that aborts the run.

    With ``kind``, which the framework passes on to its caller, it is an error of that class. Without it, it is the
    carrier if a wrapped run is further up the stack, else the plain error. The run's state gets the error, too: code in
    between may keep the carrier as a result, as ``asyncio.gather`` does. Without a trip the run was aborted before, and
    the same error is raised again.
    """
    run_state = scope.run_state
    if trip is None:
        return None if run_state is None or run_state.abort_error is None else LoopAbort(run_state.abort_error)
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
    run_state.abort_error = error
    return LoopAbort(error)


def carried(error: BaseException) -> ToolLoopError | None:
    """Return the ``ToolLoopError`` in a carrier, or in an exception group that holds a carrier."""
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
    """Return the ``ToolLoopError`` that is the only member of an exception group, as task groups wrap it."""
    parts = getattr(error, "exceptions", ())
    if isinstance(parts, tuple) and len(parts) == 1:
        return parts[0] if isinstance(parts[0], ToolLoopError) else grouped(parts[0])
    return None
