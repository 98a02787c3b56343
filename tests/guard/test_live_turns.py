"""Idle turns are bytes in the store, and objects again when they are used."""

from __future__ import annotations

import gc
import weakref

from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.words import Action, First, Outcome, ToolCall, Trip
from otel_loopguard.guard.guard import Guard
from otel_loopguard.guard.live_turns import MemoryStore


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


def test_a_stored_turn_goes_on_where_it_was():
    """The third equal call is refused though other turns moved its turn to the store after the second."""
    guard = guard_of()
    first = guard.turn("a")
    assert [read(first) for _ in range(2)] == [None, Action.NUDGE]
    gone = weakref.ref(first)
    del first
    read(guard.turn("b"))
    gc.collect()
    assert gone() is None
    assert guard.live == 2
    assert read(guard.turn("a")) is Action.BLOCK


def test_a_trip_of_a_stored_turn_is_not_its_first_one_again():
    """The turn that comes back from the store knows which trips were reported."""
    guard, trip = guard_of(), Trip("cycle", "read_file", 3, 3, Action.BLOCK, Action.BLOCK)
    assert guard.turn("a").reach(trip) is First.ACTION
    guard.turn("b")
    gc.collect()
    assert guard.turn("a").reach(trip) is First.NO


def test_a_stored_turn_that_is_still_held_is_not_made_twice():
    """The guard returns the object that a run still holds, though newer turns pushed it into the store."""
    guard = guard_of()
    held = guard.turn("a")
    read(held)
    for name in "bcd":
        guard.turn(name)
    read(held)
    assert guard.turn("a") is held


def test_a_held_turn_that_is_used_after_it_was_stored_is_stored_again():
    """The store has the state of the first call; the second call is not lost when the turn is released."""
    guard = guard_of()
    held = guard.turn("a")
    read(held)
    guard.turn("b")
    read(held)
    del held
    guard.turn("c")
    gc.collect()
    assert read(guard.turn("a")) is Action.BLOCK


def test_a_late_call_does_not_bring_back_a_turn_that_is_over():
    """A turn that is stored, closed and called once more stays forgotten."""
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


def test_turns_that_cannot_be_stored_are_bounded_too():
    """The oldest turn is stored if too many have a call that is never ended."""
    guard = guard_of()
    guard._turns._most_unstored = 5
    for number in range(20):
        guard.turn(str(number)).begin(ToolCall("read_file", {"path": "a"}))
    assert len(guard._turns._latest) == 5


def test_state_under_another_hash_key_is_harmless():
    """Nothing matches the calls of this process, so they are judged as new ones."""
    turns = [Guard(Policy(hash_key=key)).turn() for key in (b"one", b"two")]
    assert [read(turns[0]) for _ in range(3)] == [None, Action.NUDGE, Action.BLOCK]
    turns[1].restore(turns[0].state())
    assert [read(turns[1]) for _ in range(3)] == [None, Action.NUDGE, Action.BLOCK]


def test_a_turn_that_is_over_is_forgotten_in_the_store_too():
    """A new turn of the same id begins with nothing."""
    guard = guard_of()
    turn = guard.turn("a")
    read(turn)
    guard.turn("b")
    turn.close()
    assert guard.turn("a").calls == 0


def test_the_store_is_bounded_and_drops_the_idle():
    """The least recently saved goes first; state older than an hour is not given back."""
    store = MemoryStore(most=2)
    for number, name in enumerate("abc"):
        store.save(name, name.encode(), float(number))
    assert len(store) == 2
    assert [store.load(name, 10.0) for name in "abc"] == [None, b"b", b"c"]
    store.save("d", b"d", 0.0)
    assert store.load("d", 3_601.0) is None


def test_a_child_process_begins_with_no_turns():
    """The turns of the parent process, live or stored, are gone."""
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
