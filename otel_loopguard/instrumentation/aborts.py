"""Abort a run from inside a framework that feeds exceptions back to its model."""

from __future__ import annotations

import builtins
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine import sentences
from otel_loopguard.errors import RunBudgetError, RunStopped, ToolLoopError
from otel_loopguard.semconv import UNKNOWN_TOOL

if TYPE_CHECKING:
    from otel_loopguard.engine.vocabulary import Trip
    from otel_loopguard.turns.scope import Scope

_MOST_CLASSES = 64
_MOST_MEMBERS = 10_000
"""An exception group may be of any size; a ``LoopAbort`` is near its top."""


class LoopAbort(BaseException):
    """Carry a ``RunStopped`` past ``except Exception``. The wrapper of the run turns it into the error again."""

    def __init__(self, error: RunStopped) -> None:
        super().__init__(str(error))
        self.error = error


def abort_error(
    trip: Trip | None,
    printable_name: str,
    scope: Scope,
    kind: type[RunStopped] | None = None,
    *,
    attempts: int = 0,
    has_run: bool = False,
) -> BaseException | None:
    """Return the exception that aborts the run.

    ``kind``: its class, if the framework passes this class on to its caller. Without one it is a ``LoopAbort`` inside a
    wrapped run, else a ``RunStopped``. The run's state keeps the error of a ``LoopAbort``, too: code in between may
    take that for a result, as ``asyncio.gather`` does. Without a trip the run was aborted before, and its error comes
    again; None if it has none. ``has_run``: the calls were read in requests to a model, so none was refused.
    """
    run_state = scope.run_state
    if trip is None:
        return None if run_state is None or run_state.abort_error is None else LoopAbort(run_state.abort_error)
    concrete = _concrete(kind or RunStopped, RunBudgetError if trip.is_budget else ToolLoopError)  # type: ignore[arg-type]  # a class is hashable
    error = concrete(
        sentences.abort(
            trip,
            scope.turn.policy,
            None if printable_name == UNKNOWN_TOOL else printable_name,
            attempts=attempts,
            refusals=0 if has_run else max(0, scope.turn.refusals - 1),  # this one is raised
        ),
        tool_name=trip.tool,
        mode=str(trip.mode),
        repeats=trip.count,
        limit=trip.limit,
        turn_id=scope.turn.id,
    )
    if isinstance(error, RunBudgetError):
        error.account = trip.reason
    if run_state is None or kind is not None:
        return error
    run_state.abort_error = error
    return LoopAbort(error)


@lru_cache(_MOST_CLASSES)
def _concrete(kind: type[RunStopped], error: type[RunStopped]) -> type[RunStopped]:
    """Return a class of this error that is also of ``kind``, in which the framework lets it out."""
    return error if kind is RunStopped else type(error.__name__, (error, kind), {"__module__": error.__module__})


def gets_answer(trip: Trip | None, scope: Scope) -> bool:
    """Return True if a call that aborts its run is answered. Then the run is told to raise the error after its step.

    An error would leave the call without a result in the checkpoint of the run, and models refuse such a message list
    for ever. Only calls of one message are answered, because a node may call its model in a loop of its own. Without a
    trip the run was aborted before.
    """
    run_state, message = scope.run_state, scope.message_tick
    if run_state is None or not run_state.has_steps:
        return False
    if trip is None:
        return message is not None and message == run_state.aborted_message
    run_state.aborted_message, run_state.abort_waits = message, True
    return True


def carried(error: BaseException) -> RunStopped | None:
    """Return the ``RunStopped`` in a ``LoopAbort``, or in an exception group that holds one; None if none does."""
    waiting: list[Any] = [error]
    seen = 0
    while waiting and seen < _MOST_MEMBERS:
        one, seen = waiting.pop(), seen + 1
        if issubclass(type(one), LoopAbort):  # not isinstance(): it asks the object
            loop_error: RunStopped = one.error
            return loop_error
        waiting.extend(reversed(_members(one)))
    return None


def grouped(error: BaseException | None) -> RunStopped | None:
    """Return the ``RunStopped`` that is the only member of an exception group, as of a task group; else None."""
    members, depth = _members(error), 0
    while len(members) == 1 and depth < _MOST_MEMBERS:
        if issubclass(type(members[0]), RunStopped):
            return members[0]  # type: ignore[return-value]  # its type was checked
        members, depth = _members(members[0]), depth + 1
    return None


def wrapped_error(error: BaseException | None, kind: type[BaseException]) -> RunStopped | None:
    """Return the ``RunStopped`` that a framework has wrapped in its own exceptions, of this kind; None if none is.

    In an exception of the program's own it stays: the program has read it.
    """
    depth = 0
    while issubclass(type(error), kind) and depth < _MOST_MEMBERS:
        error, depth = error.__cause__, depth + 1  # type: ignore[union-attr]  # its type was checked
    return error if issubclass(type(error), RunStopped) else None  # type: ignore[return-value]  # as above


def _members(error: BaseException | None) -> tuple[BaseException, ...]:
    """Return the members of an exception group, () of any other exception. No code of the exception's class is run."""
    group = getattr(builtins, "BaseExceptionGroup", None) or getattr(
        sys.modules.get("exceptiongroup"), "BaseExceptionGroup", None
    )  # the backport for Python 3.10 exists only where something has imported it
    if group is None or not issubclass(type(error), group):
        return ()
    members: tuple[BaseException, ...] = group.exceptions.__get__(error)
    return members
