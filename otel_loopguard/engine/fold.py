"""The one judge: what an event changes in a turn, and what is decided. No lock, clock, thread, text or I/O.

``fold`` is the only place that decides: equal events in equal order make equal states and verdicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine import decide
from otel_loopguard.engine.detectors.run_budget import next_action
from otel_loopguard.engine.detectors.trips import is_doubled
from otel_loopguard.engine.events import (
    Answered,
    Asking,
    Began,
    Concluded,
    Ended,
    Found,
    Gap,
    Lost,
    Nested,
    Paid,
    Ran,
    Reached,
    Said,
    Thought,
    TurnBegan,
    TurnEnded,
    Writing,
)
from otel_loopguard.engine.history import update
from otel_loopguard.engine.history.bounded import kept
from otel_loopguard.engine.history.independence import ANYBODY
from otel_loopguard.engine.modes import DECLARED, Mode
from otel_loopguard.engine.verdict import Verdict
from otel_loopguard.engine.vocabulary import NO_LOOPS, RUN_BUDGET, USER_STOP, Action, Record, Trip, is_loop_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.engine.detectors.run_budget import PlaceInTree
    from otel_loopguard.engine.state import State
    from otel_loopguard.engine.values.results import OutcomeFacts

_NUDGE, _BLOCK, _CONCLUDE, _ABORT = Action.NUDGE, Action.BLOCK, Action.CONCLUDE, Action.ABORT
_NOTHING = Verdict()
_MODES = frozenset(map(str, Mode))
_NEED_NO_PROOF = DECLARED | {Mode.UNKNOWN_TOOL_REPEAT}
"""The modes whose refusals hold whatever another process may have done since."""


def fold(state: State, event: Any, now: float | None) -> Verdict:
    """Change the state by one event, and return what was decided.

    ``now``: seconds of the turn's clock, or None if the time was not recorded.
    """
    return _FOLDS[type(event)](state, event, now)


# --- a call begins ---------------------------------------------------------------------------------------------------


def _began(state: State, event: Began, now: float | None) -> Verdict:
    record = _judged(state, event, now)
    if record.trip is not None:
        _lower(event, record)
        if event.asks and event.ran is None:
            return _ask(record)
    return _settle(state, event, record)


def _judged(state: State, event: Began, now: float | None) -> Record:
    """Open the record of a call, and judge it unless it was judged before an interrupt."""
    history = state.history
    if event.may_exist:
        history.open_registry = True
    batch = state.batch_of(event)
    record = update.open_record(
        history,
        event.resolved,
        event.arguments,
        registered=event.registered,
        now=now,
        written=event.written if batch is None else batch.written,
    )
    record.unproven = event.unproven
    if event.around:
        record.around = event.around
    if event.place is not None:
        record.place = _placed(state, event.place, now)
    index = state.resumed_index(event, batch, record.key)
    if index is not None:
        record.index, record.resumed = index, True
        return record
    history.judged += 1
    if event.judged:
        record.trip = decide.before(history, record, state.compiled, state.ceiling, event.custom)
    return record


def _placed(state: State, place: PlaceInTree | None, now: float | None) -> PlaceInTree | None:
    """Return the place with what the other turns of the conversation spent, if the policy counts that."""
    of = state.place
    if of is None or place is None or not state.compiled.counts_conversations:
        return place
    with of.memory.lock:
        return place._replace(earlier=of.conversation(state.compiled, now).spent_before(of.turn))


def _count_loop(state: State, trip: Trip | None, record: Record | None) -> None:
    """Count a call that was refused, or that has run, if it is one of a loop."""
    if is_loop_step(trip, record):
        spent = state.history.spent
        state.history.spent = spent._replace(loop_calls=spent.loop_calls + 1)


def _ask(record: Record, recovered: tuple[Trip, ...] = (), trip: Any = None) -> Verdict:
    return Verdict(record, trip or record.trip, asks=True, recovered=recovered)


def _settle(state: State, event: Began, record: Record) -> Verdict:
    """Make the decision take effect: the call is open from now on, or it is refused."""
    history, messages, trip = state.history, state.messages, record.trip
    if messages is not None and messages.stops:
        return _stopped(state, record, _stop_before(state, record))
    if trip is not None:
        record.trip = trip = _possible(state, record, trip, is_reusable=event.reusable or record.key in state.reusable)
    if event.ran is False and (state.is_recorded or trip is None or trip.action <= _NUDGE):
        update.refuse(history, record, trip)  # so it was decided
        _count_loop(state, trip, None)
        return Verdict(record, trip)
    if trip is not None:
        state.remember(trip)
        if trip.action > _NUDGE:
            return _refused(state, event, record, trip)
    update.let_run(history, record, heeds=state.heeds)
    _start(state, event, record)
    if state.batch is not None:
        state.add_to_batch(event, record)
    if trip is None:
        return _nothing_seen(record)
    return Verdict(record, trip, trip.action, first=state.reach(trip))


def _refused(state: State, event: Began, record: Record, trip: Trip) -> Verdict:
    history, messages = state.history, state.messages
    update.refuse(history, record, trip, counted=not state.is_recorded)
    if state.is_recorded:  # it has run
        _start(state, event, record)
    else:
        _count_loop(state, trip, None)
    # The error that aborts a run has no place for messages.
    notes = () if messages is None or trip.action is _ABORT else messages.take(claims=state.claims)
    return Verdict(record, trip, trip.action, notes=notes, refusals=history.refusals, first=state.reach(trip))


def _start(state: State, event: Began, record: Record) -> None:
    update.start(state.history, record)
    if state.is_shared:
        state.keep(event, record)


def _nothing_seen(record: Record) -> Verdict:
    """Return the verdict about a call without a loop."""
    return tuple.__new__(Verdict, (record, None, None, (), (), (), 0, None, False, False, False))  # see `nothing_seen`


def _possible(state: State, record: Record, trip: Trip, *, is_reusable: bool = False) -> Trip:
    """Return the trip with an action that is possible now.

    A second CONCLUDE in a turn becomes BLOCK. REUSE without an earlier result becomes BLOCK, or, under a lower ceiling,
    NUDGE; OBSERVE if the mode's ``nudge`` is 0.
    """
    if trip.action is _CONCLUDE and state.history.concluded_at >= 0:  # once a turn
        return trip._replace(action=_BLOCK)
    if trip.action is not Action.REUSE or is_reusable:
        return trip
    tool = record.resolved.tool
    if min(tool.ceiling(trip.mode, state.compiled.policy), state.ceiling) >= _BLOCK:
        return trip._replace(action=_BLOCK)
    rule = tool.rules.get(trip.mode)
    return trip._replace(action=Action.OBSERVE if rule is not None and rule.nudge == 0 else _NUDGE)


def opened(state: State, event: Began, now: float | None) -> Record:
    """Return the record that a call would have if it began now. It changes no later decision."""
    return update.open_record(
        state.history,
        event.resolved,
        event.arguments,
        registered=event.registered,
        now=now,
        written=state.written_of(event),
    )


def would_trip(state: State, event: Began, now: float) -> Trip | None:
    """Return the trip that a call would have if it began now, or None. It changes no later decision."""
    history, gates = state.history, dict(state.history.gates)
    record = opened(state, event, now)
    trip = decide.before(history, record, state.compiled, state.ceiling, event.custom)
    history.gates = gates
    return trip


def _lower(event: Began | Answered, record: Record) -> None:
    """Lower a refusal to a nudge if the call has run, or if nothing proves that the refusal is right."""
    trip: Any = record.trip
    if trip.action <= _NUDGE or event.ran is False:
        return
    if event.ran or (event.unproven and not needs_no_proof(trip)):
        record.trip = trip._replace(action=_NUDGE)


def needs_no_proof(trip: Trip) -> bool:
    """Return True if a refusal holds whatever another process may have done since, or the model may insist on it."""
    return trip.insistable or trip.mode in _NEED_NO_PROOF or trip.reason == "max_calls" or trip.mode in NO_LOOPS


# --- a call ends -----------------------------------------------------------------------------------------------------


def _ended(state: State, event: Ended, now: float | None) -> Verdict:
    is_open = not state.is_shared or state.take(event.began.op) is not None
    facts, record = event.facts, state.own(event.record)  # type: ignore[arg-type]  # it began
    if facts is None:
        state.history.running -= state.history.running > 0
        _cancelled(state, event.began, now)
        return _nothing_seen(record)
    if not is_open:  # it ran, though the store has lost that it began, or had decided otherwise
        update.start(state.history, record)
        if record.trip is not None:
            record.trip = record.trip._replace(action=min(record.trip.action, _NUDGE))
    record.registered = event.exists or record.registered
    record.child_news = event.child_news or record.child_news
    if event.nested:
        state.history.count_nested(event.nested)
    trip = _count(state, event.began, record, facts, now)
    recovered = _recovered(state, record)
    if event.finds and trip is None and record.trip is None:
        return Verdict(record, recovered=recovered, finds=True)
    return _counted(state, event, record, now, trip, recovered)


def _counted(  # noqa: PLR0917 - what the two callers have found, and pass on
    state: State, event: Any, record: Record, now: float | None, trip: Trip | None, recovered: tuple[Trip, ...]
) -> Verdict:
    """Decide about a call whose outcome was counted, by an ``Ended`` or a ``Ran``."""
    has_run = type(event) is Ran
    ended = event.ended if has_run else event
    trip = _over_turns(state, record, ended.facts, now, trip)
    if ended.asks and trip is not None:
        return _ask(record, recovered, trip)
    if has_run:
        return state.answer(event.op, _settle_ran(state, record, trip, recovered))
    return _settle_end(state, record, trip, recovered)


def _found(state: State, event: Found, now: float | None) -> Verdict:
    """Decide about an outcome by the trips that the user's detectors found."""
    record = state.own(event.asked.record)  # type: ignore[arg-type]  # of a call
    trip = decide.after_custom(state.history, record, state.compiled, state.ceiling, event.custom)
    return _counted(state, event.of, record, now, trip, event.asked.recovered)


def _cancelled(state: State, began: Began, now: float | None) -> None:
    """Count the time that a cancelled call ran: the idle clock stands still then."""
    if now is not None:
        state.history.active_at, state.history.thinking = now, 0.0
    batch = state.batch
    if batch is not None and began.call_id in batch.started:
        batch.interrupted = True


def _count(state: State, began: Began, record: Record, facts: OutcomeFacts, now: float | None) -> Trip | None:
    """Count the outcome of a call. Return the trip for its result, if one is due."""
    history = state.history
    update.end(history, record, facts, state.fingerprinter, now)
    if history.window is not None:
        history.window.end(record)
    if record.trip is not None or not began.judged:
        return None
    trip = decide.after(history, record, state.compiled, state.ceiling)
    if trip is None or (record.capped is not None and trip.action is Action.OBSERVE):
        return None  # of two observations the refusal counts, and has an event when that is due
    return decide.stronger(record.capped, trip)


def _recovered(state: State, record: Record) -> tuple[Trip, ...]:
    """Return the open trips, and close them, if the outcome is news: the agent has recovered from them."""
    history = state.history
    if not record.news or not history.open_trips:
        return ()
    recovered = tuple(trip for trip in history.open_trips if not trip.is_budget)
    history.open_trips = tuple(trip for trip in history.open_trips if trip.is_budget)
    return recovered


def _over_turns(state: State, record: Record, facts: OutcomeFacts, now: float | None, trip: Trip | None) -> Trip | None:
    """Count an outcome in the conversation. Return the trip of the conversation if one is due, else ``trip``."""
    if state.place is None or not state.compiled.over_turns:
        return trip
    reports = trip is None and record.trip is None
    return state.place.end(record, facts, state.compiled, now, reports=reports) or trip


def _settle_end(state: State, record: Record, trip: Trip | None, recovered: tuple[Trip, ...]) -> Verdict:
    messages, first = state.messages, None
    if record.stats is not None or record.trip is not None:
        _count_loop(state, record.trip, record)
    if trip is not None:
        if not state.is_recorded:  # no model has read it, so none has recovered from it
            state.remember(trip)
        first = state.reach(trip)
    elif record.trip is None and messages is None and not recovered:
        return _nothing_seen(record)
    shown = trip or record.trip
    notes = () if messages is None else messages.take(claims=state.claims)
    return Verdict(record, trip, None if shown is None else shown.action, recovered, notes, first=first)


# --- a call that has run already -------------------------------------------------------------------------------------


def _ran(state: State, event: Ran, now: float | None) -> Verdict:
    if event.op in state.ran:
        return state.answered.get(event.op, _NOTHING)._replace(repeated=True)
    now = None if now is None else now - event.ago
    record = _judged(state, event.began, None if now is None else now - event.ran)
    facts = event.ended.facts
    if facts is None:
        _cancelled(state, event.began, now)
        return state.answer(event.op, Verdict(record))
    if not facts.is_error and state.pending_words_for(record) is None:
        facts = facts._replace(pending=False, transient=False)
    record.registered = event.ended.exists or record.registered
    trip = _count_ran(state, event, record, facts, now)
    recovered = _recovered(state, record)
    if event.ended.finds and trip is None:
        return Verdict(record, recovered=recovered, finds=True)
    return _counted(state, event, record, now, trip, recovered)


def _count_ran(state: State, event: Ran, record: Record, facts: OutcomeFacts, now: float | None) -> Trip | None:
    """Count a call that has run, with its outcome. Return the trip of the call, else that of the outcome, or None.

    News withdraws the trip of the call, unless the user has declared its limit.
    """
    history, trip = state.history, record.trip
    if trip is None:
        update.let_run(history, record, heeds=state.heeds)
    update.start(history, record)
    refusals = history.refusals
    nudge = _count(state, event.began, record, facts, now)
    is_news = record.news and state.ceiling > Action.OBSERVE
    if is_news and record.capped is not None and not _is_declared(state, record.capped):
        record.capped = None
    if trip is None:
        return nudge
    if is_news:
        if not _is_declared(state, trip):
            record.trip = None
            return None
        history.refusals = refusals  # an executor would not have run it
    trip = _possible(state, record, trip)
    if trip.action >= _BLOCK:
        step = decide.next_step(history, record, state.compiled.policy, state.ceiling)
        if step > trip.action:
            trip = trip._replace(verdict=step, action=step)
    return trip


def _is_declared(state: State, trip: Trip) -> bool:
    """Return True if the limit of a trip was declared by the user, so that it holds whatever a call returns."""
    declared = trip.reason == "max_calls" or trip.mode in DECLARED or trip.mode not in _MODES
    return declared or state.compiled.policy.counting == "calls"


def _settle_ran(state: State, record: Record, trip: Trip | None, recovered: tuple[Trip, ...]) -> Verdict:
    history, messages = state.history, state.messages
    _count_loop(state, trip, record)
    if messages is not None and messages.stops and state.ceiling > Action.OBSERVE:
        return _stopped(state, record, _stop_after(state, record))._replace(recovered=recovered)
    if trip is None:
        return Verdict(record, None, None, recovered, () if messages is None else messages.take(claims=state.claims))
    trip = _possible(state, record, trip)
    if trip.action > _NUDGE:
        update.count_refusal(history, record, trip)
        if trip.action < _CONCLUDE:
            trip = trip._replace(action=_NUDGE)
    state.remember(trip)
    notes = () if messages is None or trip.action is _ABORT else messages.take(claims=state.claims)
    return Verdict(record, trip, trip.action, recovered, notes, (), history.refusals, state.reach(trip))


# --- the user stops the run ------------------------------------------------------------------------------------------


def _stop_before(state: State, record: Record) -> Trip:
    """Return the trip that refuses a call because the user has asked to stop."""
    history, policy = state.history, state.compiled.policy
    action = decide.next_step(history, record, policy, state.ceiling)
    if action is _ABORT and not state.messages.stop_is_delivered:  # type: ignore[union-attr]  # it has stops
        action = _BLOCK
    history.refusals += 1
    if action is _CONCLUDE:
        history.conclude_at = history.news
    return Trip(USER_STOP, record.tool, history.refusals, policy.abort_after, action, action, kind=record.kind)


def _stop_after(state: State, record: Record) -> Trip:
    """Return the trip of a call that ran though the user had asked to stop: conclude the turn, and then end the run.

    The run is ended once the model has read the message and makes calls all the same.
    """
    history, policy, messages = state.history, state.compiled.policy, state.messages
    counts = update.is_new_refusal(history, record)
    if policy.conclude_after and history.concluded_at < 0:
        action = _CONCLUDE
    else:
        read = messages.stop_is_delivered  # type: ignore[union-attr]  # it has stops
        action = _ABORT if policy.abort_after and counts and read else _NUDGE
    count, verdict = history.refusals + counts, max(action, _BLOCK)
    trip = Trip(USER_STOP, record.tool, count, policy.abort_after, verdict, action, kind=record.kind)
    update.count_refusal(history, record, trip)
    return trip


def _stopped(state: State, record: Record, trip: Trip) -> Verdict:
    record.trip, messages = trip, state.messages
    new = () if trip.action is _ABORT else messages.take(claims=state.claims)  # type: ignore[union-attr]  # it has stops
    again = tuple(message for message in messages.stops if message not in new)  # type: ignore[union-attr]  # as above
    return Verdict(record, trip, trip.action, notes=new, again=again, first=state.reach(trip))


# --- all other events ------------------------------------------------------------------------------------------------


def _answered(state: State, event: Answered, _: float | None) -> Verdict:
    of, recovered = event.of, event.asked.recovered
    record = state.own(event.asked.record)  # type: ignore[arg-type]  # of a call
    if type(of) is Began:
        record.trip = event.trip
        _lower(event if event.unproven or event.ran is not None else of, record)
        return _settle(state, of._replace(ran=event.ran), record)
    if type(of) is Ended:
        return _settle_end(state, record, event.trip, recovered)
    return state.answer(of.op, _settle_ran(state, record, event.trip, recovered))


def _said(state: State, event: Said, _: float | None) -> Verdict:
    state.messages.offer(event.message)  # type: ignore[union-attr]  # is made
    return _NOTHING


def _lost(state: State, event: Lost, _: float | None) -> Verdict:
    for key in event.keys:
        update.lose(state.history, key)
    return _NOTHING


def _thought(state: State, event: Thought, now: float | None) -> Verdict:
    state.history.think(event.seconds, None if now is None else now - event.ago)
    return _NOTHING


def _concluded(state: State, _event: Concluded, _: float | None) -> Verdict:
    """Make the conclusion that is due. The verdict has the trip that made it due."""
    history = state.history
    due = history.conclusion_due
    if history.concluded_at < 0:
        history.concluded_at = history.news
    if not due:
        return _NOTHING
    trip = next((one for one in reversed(history.open_trips) if one.action is _CONCLUDE), None)
    return Verdict(None, trip, _CONCLUDE, refusals=history.refusals)


def _asking(state: State, event: Asking, now: float | None) -> Verdict:
    """Decide about a request: it is sent as it is, with a sentence or without tools, or the run is ended."""
    history, compiled = state.history, state.compiled
    policy = compiled.policy
    place = _placed(state, event.place, now)
    for budget in compiled.budgets:
        spent = 0.0 if budget.is_of_agents else budget.spent(history, place, now)
        if budget.is_of_agents or spent < budget.limit:
            continue
        verdict = next_action(history, policy)
        if verdict is _BLOCK:  # a conclusion is due already, or the policy wants none
            continue
        ceiling = min(policy.action, state.ceiling, policy.budget.get("action", _ABORT))
        action, gate = verdict if ceiling >= _BLOCK else Action.OBSERVE, (RUN_BUDGET, budget.reason, int(ceiling))
        if ceiling < _BLOCK and (ceiling is Action.OFF or gate in history.gates):
            continue
        if action is Action.OBSERVE:
            history.gates = kept(history.gates, gate, decide.MOST_GATES, 1)
        elif action is _CONCLUDE:
            history.conclude_at = history.news
        trip = Trip(
            RUN_BUDGET, "", budget.counted(spent), budget.counted(budget.limit), verdict, action, reason=budget.reason
        )
        state.remember(trip)
        return Verdict(None, trip, action, first=state.reach(trip))
    return _NOTHING if event.found is None else _by_texts(state, event.found)


def _by_texts(state: State, trip: Trip) -> Verdict:
    """Decide about a request by the trip of its texts. Where the policy weakens it, it is due at each doubling."""
    history, policy = state.history, state.compiled.policy
    if trip.verdict is _CONCLUDE:
        step = next_action(history, policy)
        trip = trip._replace(verdict=step, action=step)
    if trip.verdict is _ABORT and not policy.abort_after:
        trip = trip._replace(action=_NUDGE)
    of_mode = policy.rule(trip.mode).action
    ceiling = min(policy.action, state.ceiling, _ABORT if of_mode is None else of_mode)
    action = trip.action if ceiling >= _BLOCK else min(trip.action, ceiling)
    if action in (Action.OFF, _BLOCK) or (action < _BLOCK < trip.verdict and not is_doubled(trip.count, trip.limit)):
        return _NOTHING  # of a conclusion, BLOCK says that it is due already, or that the policy wants none
    if action is _CONCLUDE:
        history.conclude_at = history.news
    trip = trip._replace(mode=decide.MODES.get(trip.mode, trip.mode), action=action)
    state.remember(trip)
    return Verdict(None, trip, action, first=state.reach(trip))


def _writing(state: State, event: Writing, _: float | None) -> Verdict:
    return _by_texts(state, event.found)


def _nested(state: State, _event: Nested, _: float | None) -> Verdict:
    state.history.count_nested(1)
    return _NOTHING


def _spent(state: State, event: Paid, now: float | None) -> Verdict:
    state.history.spend(event.more, now, is_nested=event.is_nested)
    return _NOTHING


def _reached(state: State, event: Reached, _: float | None) -> Verdict:
    return Verdict(first=state.place_of(event.trip))


def _gap(state: State, _event: Gap, _: float | None) -> Verdict:
    state.history.change(ANYBODY)
    return _NOTHING


def _turn_began(state: State, event: TurnBegan, _: float | None) -> Verdict:
    state.begin_turn(event.number, event.turn_id)
    return _NOTHING


def _turn_ended(state: State, _event: TurnEnded, _: float | None) -> Verdict:
    state.is_over = True
    return _NOTHING


_FOLDS: dict[type, Callable[[State, Any, float | None], Verdict]] = {
    Began: _began,
    Ended: _ended,
    Ran: _ran,
    Found: _found,
    Answered: _answered,
    Said: _said,
    Lost: _lost,
    Thought: _thought,
    Concluded: _concluded,
    Asking: _asking,
    Writing: _writing,
    Nested: _nested,
    Paid: _spent,
    Reached: _reached,
    Gap: _gap,
    TurnBegan: _turn_began,
    TurnEnded: _turn_ended,
}
