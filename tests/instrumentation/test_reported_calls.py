"""The calls of a gateway's requests are reported once, and keep their times, whichever replica reads them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from otel_loopguard import Guard, Policy
from otel_loopguard.instrumentation.reported_calls import ReportedCall, ReportedCalls
from otel_loopguard.turns.message_lists import Caller, NewResult, Request, UnansweredCall
from otel_loopguard.turns.messages import Message, WrittenCall, WrittenResult
from tests.store.memory import FlakyStore

ALICE, BOB = Caller("alice"), Caller("bob")
DRAWN = "call_{:08x}"


class Replica:
    """The calls that one replica has seen, and its clock."""

    def __init__(self, store: FlakyStore | None = None, now: float = 0.0) -> None:
        self.now = now
        self.seen = ReportedCalls(Guard(Policy(hash_key=b"k" * 16), store=store, clock=lambda: self.now))

    def read(self, *news: NewResult, caller: Caller = ALICE, marks: Any = (1, 2, 3)) -> list[ReportedCall | None]:
        """Return what was known about the results of a request."""
        request = Request(list(marks), list(marks), lambda _: Message(by_user=True), None, None, caller)
        ids = {new.number: new.opened.name for new in news}
        asyncio.run(self.seen.share(caller, "root", news, ids))
        found = []
        for new in news:
            name = self.seen.name(request, (len(marks) - 1, new.number), new, ids[new.number])
            found.append(
                self.seen.add(name, ReportedCall(self.now, self.now - new.opened.at), is_own=len(new.opened.name) > 8)
            )
        return found


def result(number: int, at: float = 0.0, call_id: str | None = None) -> NewResult:
    """The result of a call that was written at a time."""
    name = call_id or DRAWN.format(number)
    call = WrittenCall(name, "read_file", {"path": "a"})
    return NewResult(number, UnansweredCall(call, at, 1, name), WrittenResult(name, "text"))


def test_a_call_is_reported_by_the_first_replica_that_reads_it() -> None:
    """The other one knows when it ended, by the clock of its own process, and how long it ran."""
    store = FlakyStore()
    one, other = Replica(store, now=100.0), Replica(store, now=9_100.0)
    assert one.read(result(1, at=97.0)) == [None]
    store._clock = lambda: 1_005.0
    other.now += 5.0
    assert other.read(result(1, at=9_105.0)) == [ReportedCall(9_100.0, 3.0)]
    assert other.read(result(2, at=9_105.0)) == [None]


def test_callers_do_not_meet() -> None:
    """Equal ids of another tenant are other calls."""
    store = FlakyStore()
    one, other = Replica(store), Replica(store)
    assert one.read(result(1)) == [None]
    assert other.read(result(1), caller=BOB) == [None]


@pytest.mark.parametrize("fault", ["refused", "timed out"])
def test_a_store_that_does_not_answer_leaves_a_call_to_be_reported(fault: str) -> None:
    """It may be reported twice then, and is never left out."""
    store = FlakyStore()
    one, other = Replica(store), Replica(store)
    assert one.read(result(1)) == [None]
    store.faults = [fault] * 9
    assert other.read(result(2)) == [None]


def test_a_server_that_comes_back_empty_is_written_again() -> None:
    """Only the calls that it had are not known to the others."""
    store = FlakyStore()
    one, other = Replica(store), Replica(store)
    one.read(result(1))
    store.empty()
    assert one.read(result(2)) == [None]
    assert other.read(result(2)) != [None]


def test_numbers_for_ids_are_one_call_within_a_minute_only() -> None:
    """All that is before the result is equal, so a client has sent it again, or an equal agent has."""
    replica, numbered = Replica(FlakyStore()), result(1, call_id="call_0")
    assert replica.read(numbered) == [None]
    assert replica.read(numbered, marks=(1, 2, 4)) == [None]
    assert replica.read(numbered) == [ReportedCall(0.0, 0.0)]
    replica.now = 61.0
    assert replica.read(numbered) == [None]


def test_a_request_of_many_calls_costs_two_writes_at_most() -> None:
    """The first contact with the store takes one more, for its clock."""
    store = FlakyStore()
    one, other = Replica(store), Replica(store)
    many = [result(number) for number in range(1_000)]
    swaps = []
    swap = store.swap

    async def counted(*arguments: Any) -> Any:
        swaps.append(arguments[0])
        return await swap(*arguments)

    store.swap = counted  # type: ignore[method-assign]
    assert one.read(*many) == [None] * 1_000
    assert None not in other.read(*many)
    assert len(swaps) <= 3
    assert len(set(swaps)) == 1
