"""A shared turn may fold an event after it was decided: what was decided then holds, whatever the state shows now."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard.engine.compiled import CompiledPolicy
from otel_loopguard.engine.events import Answered, Began, Ended, Ran
from otel_loopguard.engine.fold import fold, needs_no_proof, would_trip
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.state import State
from otel_loopguard.engine.values.results import outcome_facts
from otel_loopguard.engine.verdict import Verdict
from otel_loopguard.engine.vocabulary import USER_STOP, Action, First, Kind, Outcome, ToolCall, Trip

NUDGE, BLOCK = Action.NUDGE, Action.BLOCK


class Shared:
    """The state of a shared turn, and the events of equal calls."""

    def __init__(self, policy: Policy | None = None, tool: str = "read_file") -> None:
        self.compiled = CompiledPolicy(policy or Policy())
        self.state = State(self.compiled, is_shared=True)
        self.call = ToolCall(tool, {"path": "a"})
        self.ops = 0

    def event(self, **more: Any) -> Began:
        """Return the begin of one more call."""
        self.ops += 1
        return Began(self.ops, *self.compiled.contracts.identify(self.call), **more)

    def begin(self, **more: Any) -> Verdict:
        """Fold the begin of one more call."""
        return fold(self.state, self.event(**more), float(self.ops))

    def end(self, began: Began, verdict: Verdict, **more: Any) -> Verdict:
        """Fold the end of a call with the same result."""
        facts = outcome_facts(Outcome("same"), {}, self.compiled.fingerprinter, self.compiled.contracts.pending)
        return fold(self.state, Ended(began.op, began, verdict.record, facts, **more), float(self.ops))

    def repeat(self, times: int) -> None:
        """Make the call so many times."""
        for _ in range(times):
            event = self.event()
            self.end(event, fold(self.state, event, float(self.ops)))

    @property
    def counted(self) -> tuple[int, int]:
        """The calls and the refusals of the turn."""
        return self.state.history.calls, self.state.history.refusals


def test_a_refusal_without_proof_is_a_nudge() -> None:
    """The call runs, and what is told of it says that nothing is proved."""
    turn = Shared()
    turn.repeat(2)
    verdict = turn.begin(unproven=True)
    assert verdict.action is NUDGE
    assert verdict.record is not None
    assert verdict.record.unproven
    assert not turn.begin().record.unproven  # type: ignore[union-attr]  # it is about a call


def trip_of(mode: str, **more: Any) -> Trip:
    """Return a refusal."""
    return Trip(mode, "x", 3, 3, BLOCK, BLOCK, Kind.READ, **more)


@pytest.mark.parametrize(
    ("trip", "holds"),
    [
        (trip_of(Mode.GENERIC_REPEAT), False),
        (trip_of(Mode.GENERIC_REPEAT, insistable=True), True),
        (trip_of(Mode.UNKNOWN_TOOL_REPEAT), True),
        (trip_of(Mode.REPEATED_EFFECT), True),
        (trip_of(Mode.GENERIC_REPEAT, reason="max_calls"), True),
        (trip_of(USER_STOP), True),
    ],
)
def test_a_refusal_needs_no_proof_if_no_change_could_make_it_wrong(trip: Trip, holds: bool) -> None:
    """Of these, what the user has declared, and calls that run if they are insisted on."""
    assert needs_no_proof(trip) is holds


def test_a_cap_is_held_without_proof() -> None:
    """It counts calls, and no change takes one back."""
    turn = Shared(Policy(tools={"read_file": ToolContract(cap=1)}))
    turn.repeat(1)
    assert turn.begin(unproven=True).action is BLOCK


def test_a_call_that_has_run_is_not_refused_and_not_asked_about() -> None:
    """It counts as a call, also at a limit that needs no proof."""
    turn = Shared(Policy(tools={"read_file": ToolContract(cap=1)}))
    turn.repeat(1)
    verdict = turn.begin(asks=True, ran=True)
    assert (verdict.action, verdict.asks, turn.counted) == (NUDGE, False, (2, 0))


def test_an_observation_of_a_call_that_has_run_stays_one() -> None:
    """Only what is more than a nudge becomes one."""
    turn = Shared(Policy(modes={Mode.GENERIC_REPEAT: Rule(action="observe")}))
    turn.repeat(2)
    assert turn.begin(ran=True).action is Action.OBSERVE


def test_a_call_that_was_refused_stays_refused_and_is_reported_once() -> None:
    """It is the first refusal of its turn, and the turn recovers from it."""
    turn = Shared()
    turn.repeat(2)
    assert turn.begin(ran=False, unproven=True).first is First.ACTION
    assert turn.begin().first is First.NO
    assert turn.counted == (2, 2)
    assert [trip.action for trip in turn.state.history.open_trips] == [NUDGE, BLOCK, BLOCK]


@pytest.mark.parametrize("repeats", [0, 1])
def test_a_refusal_that_the_state_does_not_show_any_more_counts(repeats: int) -> None:
    """The call did not run, though nothing refuses it now, or a nudge is all that there is."""
    turn = Shared(Policy(tools={"read_file": ToolContract(cap=1, action="nudge")}))
    turn.repeat(repeats)
    assert turn.begin(ran=False).runs
    assert turn.counted == (repeats, 1)


def test_the_calls_of_one_message_were_written_before_the_first_of_them() -> None:
    """The processes of a shared turn have no common tick: the first call of the message marks it."""
    turn = Shared()
    turn.repeat(1)
    records: list[Any] = [turn.begin(batch=5).record for _ in range(2)]
    assert [record.written for record in records] == [2, 2]


@pytest.mark.parametrize(("repeats", "action"), [(0, None), (2, NUDGE)])
def test_a_call_whose_begin_was_lost_counts_with_its_end(repeats: int, action: Action | None) -> None:
    """Whatever would have been decided about it, it has run."""
    turn = Shared()
    turn.repeat(repeats)
    event = turn.event()
    record: Any = fold(State(turn.compiled, is_shared=True), event, 9.0).record
    record.trip = trip_of(Mode.GENERIC_REPEAT) if repeats else None
    assert turn.end(event, Verdict(record)).action is action
    assert turn.counted[0] == repeats + 1


def test_the_end_of_a_call_has_what_its_process_knows() -> None:
    """That the tool exists, and that a nested run brought news."""
    turn = Shared()
    turn.repeat(1)
    event = turn.event(registered=False)
    record: Any = turn.end(event, fold(turn.state, event, 9.0), exists=True, child_news=True).record
    assert record.registered
    assert record.news
    event = turn.event()
    verdict: Any = fold(turn.state, event, 9.0)
    verdict.record.child_news = True  # since the end was read
    assert turn.end(event, verdict).record.news  # type: ignore[union-attr]  # of a call


def test_an_observation_of_a_call_whose_begin_was_lost_stays_one() -> None:
    """In a turn that only observes, the model is told nothing."""
    turn = Shared(Policy(modes={Mode.GENERIC_REPEAT: Rule(action="observe")}))
    turn.repeat(2)
    event = turn.event()
    verdict = fold(turn.state, event, 9.0)
    turn.state.take(event.op)
    assert turn.end(event, verdict).action is Action.OBSERVE


@pytest.mark.parametrize(
    ("answer", "ran", "action"), [(BLOCK, True, NUDGE), (BLOCK, None, NUDGE), (BLOCK, False, BLOCK)]
)
def test_an_answer_about_a_trip_is_lowered_as_the_trip_is(answer: Action, ran: bool | None, action: Action) -> None:
    """If there is no proof, or if the call has run; one that was refused stays so."""
    turn = Shared()
    turn.repeat(2)
    event = turn.event(asks=True, unproven=True)
    asked = fold(turn.state, event, 9.0)
    answered = Answered(10, event, asked, trip_of(Mode.GENERIC_REPEAT), ran=ran)
    assert fold(turn.state, answered, 9.0).action is action


def test_an_answer_without_proof_does_not_refuse() -> None:
    """The store was away since ``on_trip`` was asked."""
    turn = Shared()
    turn.repeat(2)
    event = turn.event(asks=True)
    answered = Answered(10, event, fold(turn.state, event, 9.0), trip_of(Mode.GENERIC_REPEAT), unproven=True)
    assert fold(turn.state, answered, 9.0).action is NUDGE


def test_a_call_that_was_nudged_at_its_begin_is_not_nudged_with_its_result() -> None:
    """The model is told once of a call."""
    turn = Shared(Policy(tools={"read_file": ToolContract(cap=1, action="nudge")}))
    turn.repeat(1)
    event = turn.event()
    begun = fold(turn.state, event, 9.0)
    assert begun.trip is not None
    assert turn.end(event, begun).trip is None


class Seen(Shared):
    """Calls that have run already."""

    def see(self, outcome: Outcome, op: int = 0, **more: Any) -> Any:
        """Fold one more call that was observed, which ran for 2 s until 1 s ago. Return its verdict."""
        event = self.event()._replace(op=op or self.ops)
        facts = outcome_facts(outcome, {}, self.compiled.fingerprinter, self.compiled.contracts.pending)
        ended = Ended(event.op, event, None, facts, **more)
        return fold(self.state, Ran(event.op, event, ended, 2.0, 1.0), 100.0)


def test_a_call_that_two_processes_observe_counts_once() -> None:
    """The other one gets the same verdict, as a repeated one."""
    turn = Seen()
    for _ in range(2):
        verdict = turn.see(Outcome("same"))
    again = turn.see(Outcome("same"), op=turn.ops)
    assert (again.repeated, again.trip, turn.counted) == (True, verdict.trip, (2, 0))


def test_an_observed_call_has_its_own_time() -> None:
    """It began before it ran, and ended before it was found; or no time was recorded."""
    turn = Seen()
    assert turn.see(Outcome("same")).record.at == 97.0
    assert turn.state.history.active_at == 99.0
    event = turn.event()
    observed = Ran(event.op, event, Ended(event.op, event, None, None), 2.0)
    record: Any = fold(turn.state, observed, None).record
    assert record.at is None


def test_only_a_repeat_is_said_to_be_pending() -> None:
    """Whether a call is a repeat is known where all calls are; an error is transient at the first."""
    turn = Seen()
    pending = Outcome('{"status": "pending"}')
    assert [turn.see(pending).record.pending for _ in range(2)] == [False, True]
    assert Seen().see(Outcome(error="HTTP 503")).record.transient


def test_an_observed_tool_that_answered_exists() -> None:
    """Though it is not registered; and so does one that is."""
    assert Seen().see(Outcome("same"), exists=True).record.registered
    turn = Seen()
    event = turn.event(registered=True)
    facts = outcome_facts(Outcome("same"), {}, turn.compiled.fingerprinter, None)
    observed = Ran(event.op, event, Ended(event.op, event, None, facts), 0.0)
    verdict: Any = fold(turn.state, observed, 9.0)
    assert verdict.record.registered
    assert not verdict.finds


def test_the_users_detectors_are_not_asked_about_an_outcome_that_has_a_trip() -> None:
    """Neither if its call has one."""
    turn = Seen()
    assert [turn.see(Outcome("same"), finds=True).finds for _ in range(3)] == [True, False, False]
    event = turn.event()._replace(arguments=1)
    assert turn.end(event, fold(turn.state, event, 9.0), finds=True).finds
    begun = Shared(Policy(tools={"read_file": ToolContract(cap=1, action="nudge")}))
    begun.repeat(1)
    event = begun.event()
    assert not begun.end(event, fold(begun.state, event, 9.0), finds=True).finds


def test_a_look_at_what_would_be_decided_changes_nothing() -> None:
    """A nudge that was given is not due again, and one that is due stays so."""
    turn = Shared(Policy(tools={"read_file": ToolContract(cap=1, action="nudge")}))
    turn.repeat(1)
    for due in (NUDGE, None):
        trips = [would_trip(turn.state, turn.event(), 9.0) for _ in range(2)]
        assert [trip and trip.action for trip in trips] == [due, due]
        assert turn.begin().action is due
