"""Turns that are not in use are bytes in the store, and turns again when they are asked for."""

from __future__ import annotations

import gc
import weakref

from otel_loopguard.core.guard import Guard
from otel_loopguard.core.model import Action, Outcome, ToolCall
from otel_loopguard.core.turn.store import MemoryStore


def read(turn, path="a"):
    """Make one call from begin to end, and return the action."""
    call = ToolCall("read_file", {"path": path})
    decision = turn.begin(call)
    return (turn.end(call, Outcome("same")) if decision.runs else decision).action


def guard_of(most_live=1, **options):
    """A guard with room for so few live turns."""
    guard = Guard(**options)
    guard._turns._most = most_live
    return guard


def test_a_stored_turn_goes_on_where_it_was():
    """Two equal calls, then enough other turns to move it to the store: the third equal call is refused."""
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


def test_a_turn_that_somebody_holds_is_never_made_twice():
    """A run still holds the turn while others push it out of the latest turns: it is the same object."""
    guard = guard_of()
    held = guard.turn("a")
    read(held)
    for name in "bcd":
        guard.turn(name)
    read(held)
    assert guard.turn("a") is held


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
    """The parent's turns, live or stored, are the parent's."""
    guard = guard_of()
    for name in "abc":
        read(guard.turn(name))
    guard.after_fork()
    assert guard.live == 0
    assert guard.turn("a").calls == 0
