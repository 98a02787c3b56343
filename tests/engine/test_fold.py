"""Calls that have run already, recorded ones and observed ones, are folded with or without trips."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.compiled import CompiledPolicy
from otel_loopguard.engine.events import Began, Concluded, Ended
from otel_loopguard.engine.fold import fold
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.state import State
from otel_loopguard.engine.values.results import outcome_facts
from otel_loopguard.engine.verdict import Verdict
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard

CALL = ToolCall("read_file", {"path": "a"})


def recorded(policy, calls):
    """Return the state and the trips of equal calls that have all run."""
    compiled = CompiledPolicy(policy)
    state, trips = State(compiled, is_recorded=True), []
    for number in range(calls):
        began = Began(number, *compiled.contracts.identify(CALL))
        record = fold(state, began, float(number)).record
        facts = outcome_facts(Outcome("same"), {}, compiled.fingerprinter, compiled.contracts.pending)
        trips.append(record.trip or fold(state, Ended(number, began, record, facts), float(number)).trip)
    return state, trips


def test_recorded_calls_count_as_runs_and_as_refusals():
    """Each equal call has a trip from the second on, and the turn has counted all of them."""
    state, trips = recorded(Policy(abort_after=3), 6)
    assert [trip and trip.action for trip in trips] == [None, Action.NUDGE, *[Action.BLOCK] * 3, Action.ABORT]
    assert state.history.calls == 6
    assert state.history.refusals == 4
    assert len(state.history.open_trips) == 4  # no model has read the nudge


def test_recorded_calls_have_the_trips_of_live_ones_up_to_the_first_refusal():
    """The live turn and the recorded one have equal trips at equal calls."""
    seconds = [0.0]
    turn, live = Guard(clock=lambda: seconds[0]).turn(), []
    for number in range(3):
        seconds[0] = float(number)
        decision = turn.begin(CALL)
        live.append((turn.end(CALL, Outcome("same")) if decision.runs else decision).trip)
    assert recorded(Policy(), 3)[1] == live


def test_the_time_of_a_cancelled_call_is_no_pause():
    """A call that a time limit cuts off ran for that time: an equal look after it has not waited."""
    seconds = [0.0]
    turn = Guard(clock=lambda: seconds[0]).turn()
    actions = []
    for number in range(3):
        actions.append(turn.begin(CALL).action)
        turn.end(CALL, Outcome("same"))
        slow = ToolCall("look_up", {"number": number})
        turn.begin(slow)
        seconds[0] += 60
        turn.end(slow, Outcome(cancelled=True))
    assert actions == [None, None, Action.BLOCK]


@pytest.mark.parametrize("refuses", [True, False])
def test_a_call_that_was_refused_when_it_was_made_did_not_run(refuses):
    """Such a call counts as a refusal, with or without a refusal by this policy, and never as a call."""
    state, _ = recorded(Policy(), 2 if refuses else 1)
    began = Began(9, *state.compiled.contracts.identify(CALL), ran=False)
    assert (fold(state, began, 9.0).trip is not None) is refuses
    assert state.history.refusals == 1
    assert state.history.calls == (2 if refuses else 1)


def test_observe_counts_a_call_and_its_outcome():
    """``Turn.ran`` gives the verdicts, and the action in an observed turn is OBSERVE."""
    turn = Guard().turn(enforced=False)
    decisions = [turn.ran(CALL, Outcome("same")) for _ in range(3)]
    assert [decision.trip and decision.trip.verdict for decision in decisions] == [None, Action.NUDGE, Action.BLOCK]
    assert all(decision.trip is None or decision.trip.action is Action.OBSERVE for decision in decisions)
    assert turn.calls == 3


def test_observe_counts_a_call_that_on_trip_would_refuse():
    """``on_trip`` chooses to refuse, but the call has run and counts as a run."""
    asked = []

    def refuse(trip):
        asked.append(trip.mode)
        return Action.BLOCK

    turn = Guard(Policy(on_trip=refuse)).turn(enforced=False)
    for _ in range(4):
        turn.ran(CALL, Outcome("same"))
    assert turn.calls == 4
    assert asked


def test_observe_does_not_lose_a_message_of_the_user():
    """A call that has run cannot be refused with the message to stop: its outcome delivers it."""
    turn = Guard().turn()
    message = turn.say("stop now", stop=True)
    decision = turn.ran(CALL, Outcome("text"))
    assert decision.message == "stop now"
    assert message.delivered
    assert turn.calls == 1


def test_an_observed_nested_call_counts_in_the_outer_turn_even_if_it_would_be_stopped():
    """The call has run, without regard to the user's message to stop."""
    turn = Guard().turn()
    outer = ToolCall("ask_agent", {"task": "a"})
    turn.begin(outer)
    turn.say("stop", stop=True)
    turn.child(outer).ran(CALL, Outcome("text"))
    assert turn.calls == 2


def test_a_recorded_call_without_a_time_takes_none():
    """A cancelled one does not move the clock: the next pause is counted from the last time that is known."""
    state, _ = recorded(Policy(), 1)
    began = Began(9, *state.compiled.contracts.identify(CALL))
    fold(state, Ended(9, began, fold(state, began, None).record, None), None)
    assert fold(state, began._replace(op=10), 5.0).record.gap == 5.0


def test_a_call_of_which_too_little_is_known_is_not_judged():
    """Neither when it begins nor with its result."""
    state, _ = recorded(Policy(), 0)
    trips = []
    for number in range(5):
        began = Began(number, *state.compiled.contracts.identify(CALL), judged=False)
        record = fold(state, began, float(number)).record
        facts = outcome_facts(Outcome("same"), {}, state.fingerprinter, state.compiled.contracts.pending)
        trips += [record.trip, fold(state, Ended(number, began, record, facts), float(number)).trip]
    assert trips == [None] * 10


def test_a_conclusion_is_made_once():
    """What another process makes of it later finds nothing due, and does not move the place of it."""
    state, _ = recorded(Policy(), 12)
    state.history.news += 1
    assert fold(state, Concluded(12), 12.0) == Verdict()
    made_at = state.history.concluded_at
    state.history.news += 1
    fold(state, Concluded(13), 13.0)
    assert state.history.concluded_at == made_at


def test_a_conclusion_names_the_trip_that_made_it_due():
    """Not the one that came after it."""
    state, _ = recorded(Policy(), 9)
    state.remember(state.history.open_trips[0])
    assert fold(state, Concluded(12), 12.0).trip.action is Action.CONCLUDE
