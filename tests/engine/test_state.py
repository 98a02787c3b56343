"""What a turn remembers is bounded, and a call that is made again is known by its id."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard.engine import state as bounds
from otel_loopguard.engine.compiled import CompiledPolicy
from otel_loopguard.engine.events import Began
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.state import State
from otel_loopguard.engine.verdict import Verdict
from otel_loopguard.engine.vocabulary import OVER_TURNS, Action, First, Record, ToolCall, Trip

TRIP = Trip(Mode.NO_NOVELTY, "x", 1, 1, Action.NUDGE, Action.NUDGE)


@pytest.fixture(name="state")
def _state() -> State:
    return State(CompiledPolicy(Policy()), is_shared=True)


def begun(state: State, op: int, call_id: Any = None, batch: int | None = None) -> tuple[Began, Record]:
    """Return the begin of a call, and the record of it."""
    event = Began(op, *state.compiled.contracts.identify(ToolCall("read_file", {})), call_id=call_id, batch=batch)
    record = Record()
    record.key, record.index = 7, op
    return event, record


def test_the_oldest_open_call_is_forgotten(state: State) -> None:
    """A process that is killed never ends its calls."""
    for op in range(bounds.MOST_OPEN + 1):
        state.keep(*begun(state, op))
    assert len(state.open) == bounds.MOST_OPEN
    assert state.take(0) is None
    assert state.take(1) is not None


def test_the_oldest_message_is_forgotten(state: State) -> None:
    """The agents of a shared turn have one at a time each."""
    for number in range(bounds.MOST_BATCHES + 1):
        state.batch_of(begun(state, number, batch=number)[0])
    assert list(state.batches) == list(range(1, bounds.MOST_BATCHES + 1))


def test_a_message_has_a_bounded_number_of_calls(state: State) -> None:
    """The calls beyond it count again if it is interrupted."""
    batch: Any = state.batch_of(begun(state, 0, batch=1)[0])
    for op in range(bounds.MOST_IN_BATCH + 1):
        state.add_to_batch(*begun(state, op, call_id=op))
    state.add_to_batch(*begun(state, 0))
    assert list(batch.started) == list(range(bounds.MOST_IN_BATCH))


def test_the_oldest_observed_calls_are_forgotten(state: State) -> None:
    """Of fewer, the verdict is kept: of those that have one to tell."""
    for op in range(bounds.MOST_RAN + 1):
        state.answer(op, Verdict(trip=TRIP))
    assert list(state.ran) == list(range(1, bounds.MOST_RAN + 1))
    assert list(state.answered) == list(state.ran)[-bounds.MOST_ANSWERED :]
    state.answer(-1, Verdict())
    state.answer(-2, Verdict(notes=("text",)))
    assert -1 not in state.answered
    assert -2 in state.answered


def test_a_turn_of_one_process_keeps_no_verdict() -> None:
    """Nobody else observes its calls."""
    state = State(CompiledPolicy(Policy()))
    state.answer(1, Verdict(trip=TRIP))
    assert not state.ran
    assert not state.answered


def test_the_oldest_turns_of_a_cell_are_forgotten(state: State) -> None:
    """The one that it is in is none of them."""
    for number in range(1, bounds.MOST_PAST + 3):
        state.begin_turn(number, "id")
    assert list(state.past) == list(range(2, bounds.MOST_PAST + 2))


def test_a_loop_over_turns_has_no_place_in_the_turn(state: State) -> None:
    """The first report of the same mode within the turn is the first, and news of the turn ends no such loop."""
    over_turns = TRIP._replace(reason=OVER_TURNS)
    assert [state.place_of(over_turns), state.place_of(TRIP)] == [First.NO, First.ACTION]
    state.remember(over_turns)
    assert state.history.open_trips == ()


def test_a_recorded_trip_is_not_reported_when_it_is_found() -> None:
    """It is when somebody asks."""
    state = State(CompiledPolicy(Policy()), is_recorded=True)
    assert state.reach(TRIP) is None
    assert state.place_of(TRIP) is First.ACTION


@pytest.mark.parametrize(
    ("call_id", "batch", "key", "index"),
    [("c0", 2, 7, 0), ("c1", 2, 7, 1), ("c2", 2, 7, None), ("c0", 1, 7, None), ("c0", 2, 8, None), (None, 2, 7, None)],
    ids=["again", "the other one", "another id", "in the same message", "another call", "without an id"],
)
def test_a_call_of_a_process_that_was_killed_is_made_again(
    state: State, call_id: Any, batch: int, key: int, index: int | None
) -> None:
    """It has the same id and is in another message, because another process has read the conversation."""
    for op, one in enumerate(("c0", "c1", None)):
        state.keep(*begun(state, op, call_id=one, batch=1))
    event, _ = begun(state, 9, call_id=call_id, batch=batch)
    assert state.resumed_index(event, state.batch_of(event), key) == index
    assert len(state.open) == (3 if index is None else 2)


def test_a_call_has_been_written_when_its_message_was(state: State) -> None:
    """Before the calls of the message moved the tick, whether or not it has begun in this state."""
    state.history.tick = 5
    first, _ = begun(state, 1, call_id="c0", batch=1)
    assert state.written_of(first) == 5
    state.batch_of(first)
    state.add_to_batch(*begun(state, 1, call_id="c0"))
    state.history.tick = 6
    assert state.written_of(first) == 5
    again, _ = begun(state, 2, call_id="c0", batch=2)
    assert state.written_of(again) == 6
    state.batch.interrupted = True  # type: ignore[union-attr]  # it was begun
    assert state.written_of(again) == 5
    assert state.written_of(again._replace(call_id="c1")) == 6
    assert state.written_of(again._replace(batch=None, written=3)) == 3
    assert state.written_of(again._replace(call_id="c1", written=4)) == 4
