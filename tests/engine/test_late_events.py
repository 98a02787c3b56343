"""A shared turn may fold an event after it was decided: what was decided then holds, whatever the state shows now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard.engine.compiled import CompiledPolicy
from otel_loopguard.engine.events import Began, Ended
from otel_loopguard.engine.fold import fold, needs_no_proof
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.state import State
from otel_loopguard.engine.values.results import outcome_facts
from otel_loopguard.engine.words import USER_STOP, Action, First, Kind, Outcome, ToolCall, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.verdict import Verdict

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
    assert verdict.basis is not None
    assert not verdict.basis.is_known
    assert turn.begin().basis.is_known  # type: ignore[union-attr]  # it is about a call


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
    """The call did not run, though nothing refuses it now."""
    turn = Shared(Policy(modes={Mode.GENERIC_REPEAT: Rule(nudge=2, block=9)}))
    turn.repeat(repeats)
    assert turn.begin(ran=False).runs
    assert turn.counted == (repeats, 1)


def test_a_call_whose_begin_was_lost_counts_with_its_end() -> None:
    """Whatever would have been decided about it, it has run."""
    turn = Shared()
    turn.repeat(2)
    event = turn.event()
    verdict = fold(turn.state, event, 9.0)
    assert verdict.action is BLOCK
    assert turn.end(event, verdict).action is NUDGE
    assert turn.counted[0] == 3


def test_the_end_of_a_call_has_what_its_process_knows() -> None:
    """That the tool exists, and that a nested run brought news."""
    turn = Shared()
    turn.repeat(1)
    event = turn.event(registered=False)
    record: Any = turn.end(event, fold(turn.state, event, 9.0), exists=True, child_news=True).record
    assert record.registered
    assert record.news


def test_an_observation_of_a_call_whose_begin_was_lost_stays_one() -> None:
    """In a turn that only observes, the model is told nothing."""
    turn = Shared(Policy(modes={Mode.GENERIC_REPEAT: Rule(action="observe")}))
    turn.repeat(2)
    event = turn.event()
    verdict = fold(turn.state, event, 9.0)
    turn.state.take(event.op)
    assert turn.end(event, verdict).action is Action.OBSERVE
