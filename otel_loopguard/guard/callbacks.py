"""Call the functions of a policy: ``on_trip``, ``on_end``, and the user's detectors.

They are user code, so they run outside of every lock. If one raises, or returns a value of a wrong type, the call runs.
"""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.detectors.row import Detector
from otel_loopguard.engine.vocabulary import Action, Kind, Trip
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.shield import Shield

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.vocabulary import Record
    from otel_loopguard.guard.ending import EndedTurn

_logger = logging.getLogger("otel_loopguard")


class CallbackFaults:
    """Reports faults of the policy's functions: to ``report_to`` if that is set, else to the log, once each."""

    def __init__(self) -> None:
        self.report_to: Callable[[str, BaseException], None] | None = None
        """``fn(site, error)``, where ``site`` is "on_trip", "on_end" or "detector"; None: the log."""
        self.shield = Shield()
        """Takes the faults of this package that no caller would see."""
        self._logged: set[str] = set()

    def report(self, site: str, error: BaseException) -> None:
        """Report an exception of user code. Its text may quote an argument, so only its type is logged."""
        if self.report_to is not None:
            self.report_to(site, error)
        else:
            self.warn_once(f"{site} of the policy raised {type(error).__name__}: the program goes on")

    def warn_once(self, message: str) -> None:
        """Log a message, unless it was logged before."""
        if message not in self._logged:
            self._logged.add(message)
            _logger.warning(message)


def ask_on_trip(faults: CallbackFaults, on_trip: Any, trip: Trip) -> Trip:
    """Return the trip with the action that ``on_trip`` returns; unchanged if that is None or has to be awaited."""
    try:
        answer = on_trip(trip)
        if not inspect.isawaitable(answer):
            return _with_answer(trip, answer)
        _close(answer)
        faults.warn_once(
            "on_trip is async, but a tool was called from sync code, where its answer is ignored: give a plain function"
        )
    except Exception as error:  # noqa: BLE001 - user code: its fault lets the call run
        pass_interrupt(error)
        return _observe_after_fault(faults, trip, error)
    return trip


async def await_on_trip(faults: CallbackFaults, on_trip: Any, trip: Trip) -> Trip:
    """Return the trip with the action that ``on_trip`` returns; its answer is awaited if it is awaitable."""
    try:
        answer = on_trip(trip)
        return _with_answer(trip, await answer if inspect.isawaitable(answer) else answer)
    except Exception as error:  # noqa: BLE001 - user code: its fault lets the call run
        pass_interrupt(error)
        return _observe_after_fault(faults, trip, error)


def tell_on_end(faults: CallbackFaults, on_end: Any, ended: EndedTurn) -> None:
    """Call ``on_end`` with a turn that has ended. A coroutine that it returns is not awaited."""
    try:
        answer = on_end(ended)
        if inspect.isawaitable(answer):
            _close(answer)
            faults.warn_once("on_end is async, but it is not awaited: give a plain function")
    except Exception as error:  # noqa: BLE001 - user code: its fault must not become the program's
        pass_interrupt(error)
        faults.report("on_end", error)


def _close(answer: Any) -> None:
    """Close a coroutine that is not awaited, so that Python prints no warning."""
    close = getattr(answer, "close", None)
    if close is not None:
        close()


def _observe_after_fault(faults: CallbackFaults, trip: Trip, error: Exception) -> Trip:
    faults.report("on_trip", error)
    return trip._replace(action=Action.OBSERVE)


def _with_answer(trip: Trip, answer: Any) -> Trip:
    if answer is None:
        return trip
    return trip._replace(action=_action(answer) if isinstance(answer, str) else Action(answer))


def _action(name: str) -> Action:
    return Action[name.upper()]


def custom_trips(
    faults: CallbackFaults, compiled: CompiledPolicy, history: History, record: Record
) -> tuple[Trip, ...]:
    """Return the trips that the user's detectors find for a call, before it is dispatched."""
    is_untried = record.stats is None
    checks = [
        (one, one.before if one.untried or not is_untried else None) if isinstance(one, Detector) else (one, one)
        for one in compiled.custom
    ]
    return tuple(_trips(faults, checks, compiled, history, record))


def custom_nudges(
    faults: CallbackFaults, compiled: CompiledPolicy, history: History, record: Record
) -> tuple[Trip, ...]:
    """Return the trips that the user's detectors find for the result of a call."""
    is_first_news = record.news and record.stats is None and not record.error
    rows = (one for one in compiled.custom if isinstance(one, Detector))
    checks = [(row, row.after if row.judges_news or not is_first_news else None) for row in rows]
    return tuple(_trips(faults, checks, compiled, history, record))


def _trips(
    faults: CallbackFaults, checks: list[tuple[Any, Any]], compiled: CompiledPolicy, history: History, record: Record
) -> Iterator[Trip]:
    for detector, check in checks:
        try:
            trip = None if check is None else _answer(detector, check, compiled.policy, history, record)
        except Exception as error:  # noqa: BLE001 - user code: its fault must not decide about the call
            pass_interrupt(error)
            faults.report("detector", error)
            continue
        if trip is not None:
            yield trip


def _answer(detector: Any, check: Any, policy: Policy, history: History, record: Record) -> Trip | None:
    """Ask one check of a detector. A row is asked only about tools that it concerns, and its trips get its mode."""
    if not isinstance(detector, Detector):
        return _checked(check(history, record, policy.rule(getattr(detector, "__name__", "own"))))
    tool = record.resolved.tool
    if detector.concerns is not None and not detector.concerns(tool, policy):
        return None
    trip = _checked(check(history, record, tool.rules[detector.mode]))
    return None if trip is None else trip._replace(mode=detector.mode)


class NotATripError(TypeError):
    """A detector returned a value that is neither a Trip nor None."""


_TYPES = (str, str, int, int, Action, Action, Kind, int, int, bool, str)
"""The types of a trip's first fields; the two after them may be of any type."""


def _checked(answer: Any) -> Trip | None:
    """Return the answer as a trip with fields of the right types; the verdict may be the name of an action."""
    if answer is None:
        return None
    if isinstance(answer, Trip):
        verdict: Any = answer.verdict
        trip = answer._replace(verdict=_action(verdict)) if isinstance(verdict, str) else answer
        if all(map(isinstance, trip, _TYPES)):
            return trip
    elif inspect.iscoroutine(answer):  # a detector is not awaited
        answer.close()
    raise NotATripError
