"""Functions of the policy: ``on_trip`` and one's own detectors. Foreign code, so it runs outside of every lock, and
where it raises, or answers with what is no answer, the call runs.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.model import Action, Kind, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.guard import Guard
    from otel_loopguard.core.history.update import History
    from otel_loopguard.core.model import Record
    from otel_loopguard.core.turn.compiled import CompiledPolicy


def asked(guard: Guard, on_trip: Any, trip: Trip) -> Trip:
    """The trip as ``on_trip`` has it."""
    try:
        answer = on_trip(trip)
        if not inspect.isawaitable(answer):
            return _answered(trip, answer)
        guard.close_unheard(answer)
    except Exception as error:  # noqa: BLE001 - foreign code: its fault lets the call run
        return _unanswered(guard, trip, error)
    return trip


async def awaited(guard: Guard, on_trip: Any, trip: Trip) -> Trip:
    """The same, for async code: an answer that is to be awaited is awaited."""
    try:
        answer = on_trip(trip)
        return _answered(trip, await answer if inspect.isawaitable(answer) else answer)
    except Exception as error:  # noqa: BLE001 - foreign code: its fault lets the call run
        return _unanswered(guard, trip, error)


def own_trips(guard: Guard, compiled: CompiledPolicy, history: History, record: Record) -> tuple[Trip, ...]:
    """What the policy's own detectors say of a call."""
    trips = []
    for detector in compiled.own_detectors:
        try:
            trip = _trip(detector(history, record, compiled.policy.rule(getattr(detector, "__name__", "own"))))
        except Exception as error:  # noqa: BLE001 - foreign code: its fault must not decide about the call
            guard.fault("detector", error)
            continue
        if trip is not None:
            trips.append(trip)
    return tuple(trips)


class NotATripError(TypeError):
    """What a detector answered with is neither a Trip nor None."""


_TYPES = (str, str, int, int, Action, Action, Kind, int, int, bool, str)
"""Those of a trip's fields."""


def _trip(answer: Any) -> Trip | None:
    """The answer as a trip that nothing further on stumbles over; the verdict may be an action's name."""
    if answer is None:
        return None
    if isinstance(answer, Trip):
        verdict: Any = answer.verdict
        trip = answer._replace(verdict=_action(verdict)) if isinstance(verdict, str) else answer
        if all(map(isinstance, trip, _TYPES)):
            return trip
    elif inspect.iscoroutine(answer):  # nobody awaits a detector
        answer.close()
    raise NotATripError


def _answered(trip: Trip, answer: Any) -> Trip:
    """The trip under the action that was chosen, if one was."""
    if answer is None:
        return trip
    return trip._replace(action=_action(answer) if isinstance(answer, str) else Action(answer))


def _action(name: str) -> Action:
    return Action[name.upper()]


def _unanswered(guard: Guard, trip: Trip, error: Exception) -> Trip:
    guard.fault("on_trip", error)
    return trip._replace(action=Action.OBSERVE)
