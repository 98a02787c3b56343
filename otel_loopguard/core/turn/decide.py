"""From trips to one decision: which mode speaks, how far the ceiling lets it go, and how often it may repeat itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.core.model import Action, Mode, Trip

if TYPE_CHECKING:
    from otel_loopguard.core.history.update import History
    from otel_loopguard.core.model import Record
    from otel_loopguard.core.turn.compiled import CompiledPolicy

_ONCE_A_TURN = frozenset({Mode.UNKNOWN_TOOL_REPEAT, Mode.NO_NOVELTY, Mode.GLOBAL_CIRCUIT_BREAKER})
_ONCE_A_TOOL = frozenset({Mode.ERROR_REPEAT, Mode.RETRY_LIMIT})
_MOST_GATES = 1_024
_ACTION = Trip._fields.index("action")


def before(
    history: History, record: Record, compiled: CompiledPolicy, highest: Action, own: tuple[Trip, ...] = ()
) -> Trip | None:
    """The trip that a call makes before it is dispatched, with its action. ``own``: of one's own detectors."""
    tool, policy, best = record.resolved.tool, compiled.policy, None
    checks = tool.checks or compiled.checks_of(tool)
    for check, rule in checks.before_untried if record.stats is None else checks.before:
        trip = check(history, record, rule)
        if trip is None or (trip.insistable and record.key in history.insistable):
            continue
        if tool.contract.reuse and trip.verdict is Action.BLOCK:
            trip = trip._replace(verdict=Action.REUSE)
        best = _stronger(best, _capped(trip, tool.ceiling(trip.mode, policy), highest))
    for trip in own:
        if trip.insistable and record.key in history.insistable:
            continue
        best = _stronger(best, _capped(trip, tool.ceiling(trip.mode, policy), highest))
    if best is None:
        return None
    if best.action >= Action.BLOCK and 0 < policy.abort_after <= history.refusals:
        return best._replace(verdict=Action.ABORT, action=Action.ABORT)
    if best.action < Action.REUSE and not passes(history, record, best):
        return None
    return best


def after(history: History, record: Record, compiled: CompiledPolicy, highest: Action) -> Trip | None:
    """The nudge that a call has earned: of the first mode that has one and was not heard of it yet."""
    tool, observed = record.resolved.tool, None
    checks = tool.checks or compiled.checks_of(tool)
    for check, rule in checks.after_news if record.news and record.stats is None and not record.error else checks.after:
        trip = check(history, record, rule)
        if trip is None:
            continue
        trip = _capped(trip, tool.ceiling(trip.mode, compiled.policy), highest)
        if trip is not None and passes(history, record, trip, once=rule.once):
            if trip.action >= Action.NUDGE:
                return trip
            observed = observed or trip
    return observed


def _capped(trip: Trip, ceiling: Action, highest: Action) -> Trip | None:
    """The trip under its ceiling; None where its mode or tool is switched off."""
    if not ceiling:  # OFF
        return None
    action = min(trip.verdict, ceiling, highest)
    return trip if action is trip.action else Trip._make((*trip[:_ACTION], action, *trip[_ACTION + 1 :]))


def _stronger(best: Trip | None, trip: Trip | None) -> Trip | None:
    if best is None or trip is None:
        return best or trip
    return trip if (trip.action, trip.verdict) > (best.action, best.verdict) else best


def passes(history: History, record: Record, trip: Trip, *, once: bool | None = False) -> bool:
    """Whether a nudge or an observation is due: at its limit, and at twice and four times that; or once a turn."""
    key = (trip.mode, trip.reason) if once else gate(record, trip)
    if once and key in history.gates:
        return False
    due = history.gates.get(key, 0)
    if trip.count < due:
        return False
    following = 2 * max(trip.limit, 1)
    while following <= trip.count:
        following *= 2
    if not history.gates:
        history.gates = {}
    elif len(history.gates) >= _MOST_GATES:
        history.gates.pop(next(iter(history.gates)))
    history.gates[key] = following
    return True


def gate(record: Record, trip: Trip) -> Any:
    """What a trip is told once of: the turn, the tool or the call."""
    if trip.mode in _ONCE_A_TURN:
        return (trip.mode, trip.verdict, trip.reason)
    return (trip.mode, trip.verdict, trip.reason, record.tool if trip.mode in _ONCE_A_TOOL else record.key)
