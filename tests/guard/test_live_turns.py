"""Turns are found by their id, within bounds; one that is in use is found beyond them."""

from __future__ import annotations

import gc

import orjson
import pytest

from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Action, First, Outcome, ToolCall, Trip
from otel_loopguard.errors import LoopGuardError
from otel_loopguard.guard.guard import Guard


def read(turn, path="a"):
    """Make one call from begin to end, and return the action."""
    call = ToolCall("read_file", {"path": path})
    decision = turn.begin(call)
    return (turn.end(call, Outcome("same")) if decision.runs else decision).action


def guard_of(most_live=1, **options):
    """Return a guard with room for this number of live turns."""
    guard = Guard(**options)
    guard._turns._most = most_live
    return guard


def test_a_turn_that_is_still_held_is_not_made_twice():
    """The guard returns the object that a run still holds, though newer turns pushed it out."""
    guard = guard_of()
    held = guard.turn("a")
    read(held)
    for name in "bcd":
        guard.turn(name)
    read(held)
    assert guard.turn("a") is held


def test_a_late_call_does_not_bring_back_a_turn_that_is_over():
    """A turn that was pushed out, closed and called once more stays forgotten."""
    guard = guard_of()
    held = guard.turn("a")
    guard.turn("b")
    held.close()
    read(held)
    assert guard.turn("a") is not held
    assert guard.turn("a").calls == 0


def test_a_turn_with_a_running_call_stays_an_object():
    """A turn stays an object between begin and end of a call, though the program keeps only its id."""
    guard = guard_of()
    read(guard.turn("a"))
    call = ToolCall("read_file", {"path": "a"})
    guard.turn("a").begin(call)
    guard.turn("b")
    gc.collect()
    assert guard.turn("a").end(call, Outcome("same")).action is Action.NUDGE


def test_a_stop_of_the_user_outlives_other_turns():
    """A stop for a turn that the program does not hold is kept while other turns come before its next call."""
    guard = guard_of()
    guard.turn("a").say("stop", stop=True)
    guard.turn("b")
    gc.collect()
    assert read(guard.turn("a")) is Action.BLOCK


def test_an_idle_turn_beyond_the_bound_is_forgotten():
    """The least recently used turn begins again, once nothing holds it."""
    guard = guard_of()
    read(guard.turn("a"))
    guard.turn("b")
    gc.collect()
    assert guard.live == 1
    assert guard.turn("a").calls == 0


def test_turns_with_a_running_call_are_bounded_too():
    """There are twice as many turns at most if each has a call that is never ended."""
    guard = guard_of(5)
    for number in range(20):
        guard.turn(str(number)).begin(ToolCall("read_file", {"path": "a"}))
    assert guard.live == 10


@pytest.mark.parametrize("keys", [(b"one", b"two"), (None, None), (b"one", None)])
def test_state_under_another_hash_key_is_an_error(keys):
    """Nothing of it would match the calls of this process. The turn stays as it is."""
    turns = [Guard(Policy(hash_key=key)).turn() for key in keys]
    assert [read(turns[0]) for _ in range(3)] == [None, Action.NUDGE, Action.BLOCK]
    assert read(turns[1]) is None
    with pytest.raises(LoopGuardError, match=r"under another hash key.* set OTEL_PYTHON_LOOPGUARD_HASH_KEY_FILE"):
        turns[1].restore(turns[0].state())
    assert [read(turns[1]) for _ in range(2)] == [Action.NUDGE, Action.BLOCK]


@pytest.mark.parametrize("guards", [lambda: (Guard(),) * 2, lambda: [Guard(Policy(hash_key=b"one")) for _ in range(2)]])
def test_a_turn_goes_on_from_its_bytes(guards):
    """In this process, and in another one with the same key."""
    turns = [guard.turn() for guard in guards()]
    assert [read(turns[0]) for _ in range(2)] == [None, Action.NUDGE]
    turns[1].restore(turns[0].state())
    assert read(turns[1]) is Action.BLOCK


def test_state_without_a_mark_of_its_key_is_read():
    """It was written by an earlier version."""
    turns = [Guard(Policy(hash_key=b"one")).turn() for _ in range(2)]
    assert [read(turns[0]) for _ in range(2)] == [None, Action.NUDGE]
    state = orjson.loads(turns[0].state())
    del state["key_mark"]
    turns[1].restore(orjson.dumps(state))
    assert read(turns[1]) is Action.BLOCK


def test_a_child_process_begins_with_no_turns():
    """The turns of the parent process are gone."""
    guard = guard_of()
    for name in "abc":
        read(guard.turn(name))
    guard.after_fork()
    assert guard.live == 0
    assert guard.turn("a").calls == 0


def test_a_turn_that_a_child_process_inherits_has_first_trips_of_its_own():
    """The parent's counters have its trips; the child's begin at zero."""
    guard, trip = Guard(), Trip("cycle", "read_file", 3, 3, Action.BLOCK, Action.BLOCK)
    turn = guard.turn()
    turn.reach(trip)
    guard.after_fork()
    assert turn.reach(trip) is First.ACTION
