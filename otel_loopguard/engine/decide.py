"""Turn the trips of a call into one decision: the strongest trip under its ceiling, if it is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.history.insisting import is_paid, price_of
from otel_loopguard.engine.history.update import is_new_refusal
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.vocabulary import Action, Trip

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.engine.compiled import Checks, CompiledPolicy
    from otel_loopguard.engine.detectors.row import OncePer
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.vocabulary import Record

MODES = {str(mode): mode for mode in Mode}
MOST_GATES = 1_024


def before(
    history: History, record: Record, compiled: CompiledPolicy, highest: Action, custom: tuple[Trip, ...] = ()
) -> Trip | None:
    """Return the strongest trip of a call before it is dispatched, with its action; None if none is due.

    ``highest`` is the ceiling of the turn; ``custom`` are the trips of the user's detectors.
    """
    tool, policy, best = record.resolved.tool, compiled.policy, None
    checks = tool.checks or compiled.checks_of(tool)
    for check, rule in checks.before_untried if record.stats is None else checks.before:
        trip = check(history, record, rule)
        if trip is None or (trip.insistable and (record.lost or is_paid(history, record, trip))):
            continue
        if tool.contract.reuse and trip.verdict is Action.BLOCK:
            trip = trip._replace(verdict=Action.REUSE)
        best = stronger(best, _capped(trip, tool.ceiling(trip.mode, policy), highest))
    for trip in custom:
        if trip.insistable and is_paid(history, record, trip):
            continue
        best = stronger(best, _capped(trip, tool.ceiling(trip.mode, policy), highest))
    if best is None:
        return None
    if best.action < Action.REUSE:
        if best.verdict >= Action.BLOCK:
            record.capped = best
        return best if _claim_due(history, record, compiled, best) else None
    if best.insistable and history.insisting:
        best = best._replace(price=price_of(history, record, best))
    if best.ends_no_run or min(tool.ceiling(best.mode, policy), highest) < Action.BLOCK:
        return best
    step = next_step(history, record, policy, highest)
    if best.is_budget:
        step = max(step, min(best.verdict, highest))
    return best if step <= max(best.action, Action.BLOCK) else best._replace(verdict=step, action=step)


def next_step(history: History, record: Record, policy: Policy, highest: Action) -> Action:
    """Return the action that a refusal of this call has: BLOCK, CONCLUDE or ABORT, by the refusals before it.

    The run is ended after ``abort_after`` refusals, or if no news came since the model was told to conclude; never if
    ``highest``, the ceiling of the turn, is below ABORT.
    """
    ends = highest is Action.ABORT and policy.abort_after
    if ends and (policy.abort_after <= history.refusals or history.concluded_at == history.news):
        return Action.ABORT
    if history.concluded_at < 0 and not history.conclusion_due:
        refusals = history.refusals + is_new_refusal(history, record)
        if 0 < policy.conclude_after <= refusals:
            return Action.CONCLUDE
    return Action.BLOCK


def after(history: History, record: Record, compiled: CompiledPolicy, highest: Action) -> Trip | None:
    """Return the trip for a result: the first nudge that is due, else the first observation that is due, else None."""
    tool = record.resolved.tool
    checks = tool.checks or compiled.checks_of(tool)
    if record.lost:
        return _first_due(history, record, compiled, highest, checks.after_loss, once=False)
    is_first_news = record.news and record.stats is None and not record.error
    return _first_due(history, record, compiled, highest, checks.after_news if is_first_news else checks.after)


def after_custom(
    history: History, record: Record, compiled: CompiledPolicy, highest: Action, custom: tuple[Trip, ...]
) -> Trip | None:
    """Return the trip for a result as ``after`` does, among ``custom``, the trips of the user's detectors.

    The call has run, so a verdict above a nudge becomes a nudge.
    """
    rules = record.resolved.tool.rules
    trips = (trip._replace(verdict=min(trip.verdict, Action.NUDGE)) for trip in custom)
    asked = tuple((lambda *_, trip=trip: trip, rules[trip.mode]) for trip in trips)
    return _first_due(history, record, compiled, highest, asked)


def _first_due(
    history: History,
    record: Record,
    compiled: CompiledPolicy,
    highest: Action,
    asked: Checks,
    *,
    once: bool = True,
) -> Trip | None:
    tool, observation = record.resolved.tool, None
    for check, rule in asked:
        trip = check(history, record, rule)
        if trip is None:
            continue
        trip = _capped(trip, tool.ceiling(trip.mode, compiled.policy), highest)
        if trip is None or (observation is not None and trip.action < Action.NUDGE):
            continue  # one observation a call: another one is due at the next call
        if _claim_due(history, record, compiled, trip, once=once and rule.once):
            if trip.action >= Action.NUDGE:
                return trip
            observation = observation or trip
    return observation


def _capped(trip: Trip, ceiling: Action, highest: Action) -> Trip | None:
    """Cap the action of a trip; None if its mode or tool is switched off."""
    if not ceiling:  # it is OFF
        return None
    return trip._replace(mode=MODES.get(trip.mode, trip.mode), action=min(trip.verdict, ceiling, highest))


def stronger(best: Trip | None, trip: Trip | None) -> Trip | None:
    """Return the trip with the higher action or, if these are equal, with the higher verdict; else the first one."""
    if best is None or trip is None:
        return best or trip
    return trip if (trip.action, trip.verdict) > (best.action, best.verdict) else best


def _claim_due(
    history: History, record: Record, compiled: CompiledPolicy, trip: Trip, *, once: bool | None = False
) -> bool:
    """Return True if a nudge or an observation is due, and note that it was.

    It is due at its limit, and each time that the count has doubled (2, 4, 8, 16); with ``once``, once a turn.
    """
    # A gate has only plain text and numbers, because it must be equal after it was written to bytes and read again.
    mode, per = str.__str__(trip.mode), compiled.once_per.get(trip.mode, "call")
    gate: tuple[Any, ...] = (mode, trip.reason)
    if not once:
        gate = (mode, int(trip.verdict), *_SHARED_BY[per](record, trip))
    elif gate in history.gates:
        return False
    due = history.gates.get(gate, 0)
    if trip.count < due:
        return False
    following = 2 * max(trip.limit, 1)
    while following <= trip.count:
        following *= 2
    if not history.gates:
        history.gates = {}
    elif len(history.gates) >= MOST_GATES:
        history.gates.pop(next(iter(history.gates)))
    history.gates[gate] = following
    return True


_SHARED_BY: Mapping[OncePer, Callable[[Record, Trip], tuple[Any, ...]]] = {
    "turn": lambda _record, trip: (trip.reason,),
    "laps": lambda _record, trip: (trip.period,),
    "tool": lambda record, trip: (trip.reason, record.resolved.tool.digest),
    "call": lambda record, trip: (trip.reason, record.key),
}
"""By ``once_per`` of a mode: the values that two of its trips must share to be counted as the same nudge."""
