"""The ledger of a turn has what its nested turns spent, in threads, and after it was written to bytes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from otel_loopguard.engine.ledger import NOTHING_SPENT, Ledger
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.guard.guard import Guard

if TYPE_CHECKING:
    from otel_loopguard.guard.ending import EndedTurn
    from otel_loopguard.guard.turn import Turn

ONE = Ledger(requests=1, input_tokens=10, output_tokens=1, cost=0.25)


def act(turn: Turn, number: int) -> None:
    """Make a call of no nested turn."""
    call = ToolCall("read_file", {"path": number})
    turn.begin(call)
    turn.end(call, Outcome(f"text {number}"))


def nest(turn: Turn, depth: int, width: int) -> None:
    """Make a request and a call, and start agents that do so, too, down to this depth."""
    turn.spend(ONE)
    act(turn, 0)
    for number in range(width if depth else 0):
        call = ToolCall("run_agent", {"task": number})
        turn.begin(call)
        with turn.child(call) as child:
            nest(child, depth - 1, width)
        turn.end(call, Outcome(f"report {number}"))


def test_a_turn_has_what_its_nested_turns_spent_and_what_it_spent_itself() -> None:
    """A tree of 1 + 3 + 9 agents: each makes one request and one call, and 4 of them start 3 agents each."""
    turn = Guard().turn()
    nest(turn, 2, 3)
    expected = Ledger(13, 13 + 12, 130, 13, cost=3.25, children=12, depth=2)
    assert turn.ledger == expected
    assert turn.own_ledger == Ledger(1, 1 + 3, 10, 1, cost=0.25, children=3, depth=1)


def test_a_nested_turn_does_not_have_what_is_around_it() -> None:
    """Its ledger begins with nothing."""
    turn = Guard().turn()
    turn.spend(ONE)
    call = ToolCall("run_agent", {})
    turn.begin(call)
    assert turn.child(call).ledger == NOTHING_SPENT


def test_no_step_is_lost_with_64_threads() -> None:
    """Requests, calls and agents of threads that share a turn."""
    turn = Guard().turn()

    def work(number: int) -> None:
        for step in range(10):
            turn.spend(ONE)
            act(turn, 100 * number + step)
        nest_call = ToolCall("run_agent", {"task": number})
        turn.begin(nest_call)
        turn.child(nest_call).spend(ONE)
        turn.end(nest_call, Outcome(f"report {number}"))

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(work, range(64)))
    assert turn.ledger == Ledger(704, 704, 7_040, 704, cost=176.0, children=64, depth=1)


def test_a_turn_that_goes_on_elsewhere_has_its_ledger() -> None:
    """It is in the turn's bytes."""
    guard = Guard(Policy(hash_key=b"k" * 32))
    turn, later = guard.turn(), guard.turn()
    nest(turn, 1, 2)
    later.restore(turn.state())
    assert later.ledger == turn.ledger
    assert later.own_ledger == turn.own_ledger


def test_the_end_of_a_turn_tells_what_it_spent() -> None:
    """The policy's ``on_end`` gets it."""
    ends: list[EndedTurn] = []
    with Guard(Policy(on_end=ends.append)).turn() as turn:
        nest(turn, 1, 1)
    assert [end.ledger for end in ends] == [Ledger(2, 3, 20, 2, cost=0.5, children=1, depth=1)]
