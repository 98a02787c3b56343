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
    assert turn.ledger.timeless == expected
    assert turn.own_ledger.timeless == Ledger(1, 1 + 3, 10, 1, cost=0.25, children=3, depth=1)


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
    assert turn.ledger.timeless == Ledger(704, 704, 7_040, 704, cost=176.0, children=64, depth=1)


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
    assert [end.ledger.timeless for end in ends] == [Ledger(2, 3, 20, 2, cost=0.5, children=1, depth=1)]


class Clocked:
    """A turn whose time passes as the test says."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.now = 0.0
        self.turn = Guard(policy, clock=lambda: self.now).turn()

    def ask(self, seconds: float) -> None:
        """Ask the model for so long."""
        self.turn.spend(ONE)
        self.now += seconds
        self.turn.thought(seconds)

    def call(self, path: str, seconds: float = 0.0) -> bool:
        """Make a call that takes so long, unless it is refused."""
        call = ToolCall("read_file", {"path": path})
        runs = self.turn.begin(call).runs
        if runs:
            self.now += seconds
            self.turn.end(call, Outcome(f"text of {path}"))
        return runs

    @property
    def seconds(self) -> tuple[float, ...]:
        """The seconds of the turn, and their shares: in models, in tools, idle."""
        spent = self.turn.ledger
        return spent.seconds, spent.model_seconds, spent.tool_seconds, spent.idle_seconds


def test_the_seconds_of_a_turn_are_those_of_models_of_tools_and_idle_ones() -> None:
    """They begin with the first request, and end with the last step."""
    run = Clocked()
    run.now = 100.0
    run.ask(4.0)
    run.call("a", 2.0)
    run.now += 1.0
    run.ask(8.0)
    run.call("b", 16.0)
    run.ask(32.0)
    run.now += 1_000.0
    assert run.seconds == (63.0, 44.0, 18.0, 1.0)


def test_calls_that_run_at_once_take_each_second_once() -> None:
    """Two of ten seconds, of which five are common, and a cancelled one in between."""
    run = Clocked()
    first, second, third = (ToolCall("read_file", {"path": path}) for path in "abc")
    run.turn.begin(first)
    run.now = 5.0
    run.turn.begin(second)
    run.turn.begin(third)
    run.now = 7.0
    run.turn.end(third, Outcome(cancelled=True))
    run.now = 10.0
    run.turn.end(first, Outcome("a"))
    run.now = 15.0
    run.turn.end(second, Outcome("b"))
    run.now = 20.0
    run.call("d", 1.0)
    assert run.seconds == (21.0, 0.0, 16.0, 5.0)


def test_a_nested_turn_is_a_call_of_the_turn_around_it() -> None:
    """Its seconds are in the call that started it, and are not added to that."""
    run = Clocked()
    call = ToolCall("run_agent", {})
    run.turn.begin(call)
    child = run.turn.child(call)
    child.spend(ONE)
    run.now += 5.0
    child.thought(5.0)
    run.turn.end(call, Outcome("report"))
    assert child.ledger[-3:] == (5.0, 5.0, 0.0)
    assert run.seconds == (5.0, 0.0, 5.0, 0.0)


def test_calls_of_a_loop_are_those_that_were_refused_or_ran_in_vain() -> None:
    """The first one is work, also that of a nested turn, and so is one whose budget is spent."""
    run = Clocked(Policy(budget={"turn": {"calls": 5}}))
    assert [run.call("a") for _ in range(4)] == [True, True, False, False]
    call = ToolCall("run_agent", {})
    run.turn.begin(call)
    nested = run.turn.child(call)
    for _ in range(2):
        nested.begin(ToolCall("read_file", {"path": "b"}))
        nested.end(ToolCall("read_file", {"path": "b"}), Outcome("text"))
    run.turn.end(call, Outcome("report"))
    for path in "cdef":
        run.call(path)
    assert (run.turn.ledger.loop_calls, run.turn.own_ledger.loop_calls, nested.ledger.loop_calls) == (4, 3, 1)


def test_under_observe_calls_that_would_be_refused_are_of_a_loop() -> None:
    """Each counts once."""
    run = Clocked(Policy(action="observe"))
    assert [run.call("a") for _ in range(6)] == [True] * 6
    assert run.turn.ledger.loop_calls == 5
