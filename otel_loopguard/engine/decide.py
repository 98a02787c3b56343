"""Turn the trips of a call into one decision: the strongest trip under its ceiling, if it is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.detectors import lost
from otel_loopguard.engine.history.update import is_new_refusal
from otel_loopguard.engine.words import Action, Mode, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.words import Record

_ONCE_A_TURN = frozenset({Mode.UNKNOWN_TOOL_REPEAT, Mode.NO_NOVELTY, Mode.GLOBAL_CIRCUIT_BREAKER})
_ONCE_A_TOOL = frozenset({Mode.ERROR_REPEAT, Mode.SAME_ANSWER, Mode.RETRY_LIMIT})
_LAPS = frozenset({Mode.PING_PONG, Mode.CYCLE})
_MOST_GATES = 1_024
_ACTION = Trip._fields.index("action")


def before(
    history: History, record: Record, compiled: CompiledPolicy, highest: Action, custom: tuple[Trip, ...] = ()
) -> Trip | None:
    """Return the trip of a call before it is dispatched, with its action.

    ``highest`` is the ceiling of the turn; ``custom`` are the trips of the policy's custom detectors.
    """
    tool, policy, best = record.resolved.tool, compiled.policy, None
    checks = tool.checks or compiled.checks_of(tool)
    for check, rule in checks.before_untried if record.stats is None else checks.before:
        trip = check(history, record, rule)
        if trip is None or (trip.insistable and (record.key in history.insistable or record.lost)):
            continue
        if tool.contract.reuse and trip.verdict is Action.BLOCK:
            trip = trip._replace(verdict=Action.REUSE)
        best = _stronger(best, _capped(trip, tool.ceiling(trip.mode, policy), highest))
    for trip in custom:
        if trip.insistable and record.key in history.insistable:
            continue
        best = _stronger(best, _capped(trip, tool.ceiling(trip.mode, policy), highest))
    if best is None:
        return None
    if best.action >= Action.REUSE and min(tool.ceiling(best.mode, policy), highest) >= Action.BLOCK:
        step = next_step(history, record, policy)
        return best if step <= max(best.action, Action.BLOCK) else best._replace(verdict=step, action=step)
    if best.action >= Action.REUSE:
        return best
    if best.verdict >= Action.BLOCK:
        record.capped = best
    return best if _is_due(history, record, best) else None


def next_step(history: History, record: Record, policy: Policy) -> Action:
    """Return the action of a refusal by the refusals before it. After a conclusion without effect the run is ended."""
    if policy.abort_after and (policy.abort_after <= history.refusals or history.concluded_at == history.news):
        return Action.ABORT
    if history.concluded_at < 0 and not history.conclusion_due:
        refusals = history.refusals + is_new_refusal(history, record)
        if 0 < policy.conclude_after <= refusals:
            return Action.CONCLUDE
    return Action.BLOCK


def after(history: History, record: Record, compiled: CompiledPolicy, highest: Action) -> Trip | None:
    """Return the nudge for a result: that of the first mode that has one and is due."""
    tool, observed = record.resolved.tool, None
    if history.losses and record.lost:
        trip = lost.after(record, tool.rules[Mode.GENERIC_REPEAT])
        trip = None if trip is None else _capped(trip, tool.ceiling(trip.mode, compiled.policy), highest)
        return trip if trip is not None and _is_due(history, record, trip) else None
    checks = tool.checks or compiled.checks_of(tool)
    for check, rule in checks.after_news if record.news and record.stats is None and not record.error else checks.after:
        trip = check(history, record, rule)
        if trip is None:
            continue
        trip = _capped(trip, tool.ceiling(trip.mode, compiled.policy), highest)
        if trip is None or (observed is not None and trip.action < Action.NUDGE):
            continue  # one observation a call: another one is due at the next call
        if _is_due(history, record, trip, once=rule.once):
            if trip.action >= Action.NUDGE:
                return trip
            observed = observed or trip
    return observed


def _capped(trip: Trip, ceiling: Action, highest: Action) -> Trip | None:
    """Cap the action of a trip; None if its mode or tool is switched off."""
    if not ceiling:  # it is OFF
        return None
    action = min(trip.verdict, ceiling, highest)
    return trip if action is trip.action else Trip._make((*trip[:_ACTION], action, *trip[_ACTION + 1 :]))


def _stronger(best: Trip | None, trip: Trip | None) -> Trip | None:
    if best is None or trip is None:
        return best or trip
    return trip if (trip.action, trip.verdict) > (best.action, best.verdict) else best


def _is_due(history: History, record: Record, trip: Trip, *, once: bool | None = False) -> bool:
    """Return True at the limit of a nudge or an observation, and at twice and four times the limit; or once a turn."""
    # A gate has only plain text and numbers, because it must be equal after it was written to bytes and read again.
    gate: tuple[Any, ...] = (str.__str__(trip.mode), trip.reason) if once else _gate(record, trip)
    if once and gate in history.gates:
        return False
    due = history.gates.get(gate, 0)
    if trip.count < due:
        return False
    following = 2 * max(trip.limit, 1)
    while following <= trip.count:
        following *= 2
    if not history.gates:
        history.gates = {}
    elif len(history.gates) >= _MOST_GATES:
        history.gates.pop(next(iter(history.gates)))
    history.gates[gate] = following
    return True


def _gate(record: Record, trip: Trip) -> tuple[Any, ...]:
    """Return the gate of a trip, which it shares with others: of the turn, the tool or the call, by its mode."""
    mode, verdict = str.__str__(trip.mode), int(trip.verdict)
    if trip.mode in _ONCE_A_TURN:
        return (mode, verdict, trip.reason)
    if trip.mode in _LAPS:
        return (mode, verdict, trip.period)
    return (mode, verdict, trip.reason, record.resolved.tool.digest if trip.mode in _ONCE_A_TOOL else record.key)
