"""The calls of one model message, identified by the turn's tick at the time of the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.guard.guard import Guard

if TYPE_CHECKING:
    from otel_loopguard.engine.vocabulary import Decision
    from otel_loopguard.guard.turn import Turn


def make(turn: Turn, written: int, call_id: str = "c", *, cancelled: bool = False, tool: str = "read") -> Decision:
    """Make one call of a model message; it ends at once if it may run."""
    call = ToolCall(tool, {"path": "a"}, call_id, written=written)
    decision = turn.begin(call)
    return turn.end(call, Outcome("text", cancelled=cancelled)) if decision.runs else decision


def test_calls_of_one_message_are_not_judged_by_each_other() -> None:
    """Six equal calls of one message that run one after the other count like six parallel calls."""
    turn = Guard().turn()
    written = turn.tick
    assert [make(turn, written, f"c{number}").action for number in range(6)] == [None] * 6
    assert turn.calls == 6


def test_two_threads_that_begin_a_batch_share_it() -> None:
    """Another thread begins the first call of the batch while this one waits for the lock: both calls are known."""
    turn = Guard(Policy(tools={"read": ToolContract(kind="read", cap=2)})).turn()
    calls = [ToolCall("read", {"path": path}, path, written=0) for path in "ab"]
    lock, waiting = turn.lock, [calls[1]]

    class SlowLock:
        def __enter__(self) -> None:
            if waiting:
                turn.begin(waiting.pop())
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    turn.lock = SlowLock()  # type: ignore[assignment]  # a lock that is taken late
    assert turn.begin(calls[0]).runs
    for call in calls:
        turn.end(call, Outcome(cancelled=True))
    resumed = [call._replace(written=turn.tick) for call in calls]
    assert [turn.begin(call).runs for call in resumed] == [True, True]
    assert turn.calls == 2


def test_a_message_adds_to_the_evidence_once() -> None:
    """Only the first of its equal calls is compared with earlier messages; a refusal is for all of them."""
    turn = Guard().turn()
    seen = []
    for message in range(3):
        written = turn.tick
        seen.append([str(make(turn, written, f"c{message}-{number}").action) for number in range(2)])
    assert seen == [["None", "None"], ["nudge", "None"], ["block", "block"]]


def test_a_call_that_is_resumed_after_an_interrupt_is_counted_once() -> None:
    """The turn and the tool's cap count a resumed call once; the next new call counts."""
    turn = Guard(Policy(tools={"read": ToolContract(cap=2)})).turn()
    make(turn, turn.tick, "c1", cancelled=True)
    again = make(turn, turn.tick, "c1")
    assert (again.action, again.record.index, turn.calls) == (None, 0, 1)
    assert [str(make(turn, turn.tick, name).action) for name in ("c2", "c3")] == ["nudge", "block"]


def test_calls_that_share_one_id_are_judged_like_others() -> None:
    """A model that gives all its calls one id is refused its repeats."""
    turn = Guard().turn()
    make(turn, turn.tick, cancelled=True)
    assert [str(make(turn, turn.tick).action) for _ in range(4)] == ["None", "nudge", "block", "block"]


def test_without_an_interrupt_calls_with_one_id_are_repeats() -> None:
    """Only an interrupted batch is resumed."""
    turn = Guard().turn()
    assert [str(make(turn, turn.tick).action) for _ in range(3)] == ["None", "nudge", "block"]


def test_the_call_of_an_earlier_message_interrupts_none() -> None:
    """A provider that numbers the calls of each message from 0 uses ids again: those calls are new."""
    turn = Guard().turn()
    early = ToolCall("wait", {}, "early", written=turn.tick)
    turn.begin(early)
    make(turn, turn.tick, "c0", tool="look")
    turn.end(early, Outcome(cancelled=True))
    assert not make(turn, turn.tick, "c0").record.resumed
