"""Each model request is booked once: as a step of a loop if all its calls are one, else as work."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.engine.vocabulary import Usage
from otel_loopguard.turns import usage as usage_module
from otel_loopguard.turns.usage import UsageLedger

USAGE = Usage("model", 100, 10)


class Booked(list[tuple[Any, bool]]):
    """The requests that were booked: the context, and whether it was a step of a loop."""

    def __call__(self, usage: Usage, context: Any, *, is_loop: bool) -> None:
        """Take one request."""
        self.append((context, is_loop))


@pytest.fixture
def booked() -> Booked:
    """The book of the ledger under test."""
    return Booked()


@pytest.fixture
def ledger(booked: Booked) -> UsageLedger:
    """A ledger that writes to ``booked``."""
    return UsageLedger(booked)


def test_a_response_without_calls_is_work(ledger: UsageLedger, booked: Booked) -> None:
    """It is an answer, and is booked at once."""
    ledger.response("turn", [], USAGE, "answer")
    assert booked == [("answer", False)]


def test_a_response_is_a_step_of_a_loop_if_all_its_calls_are(ledger: UsageLedger, booked: Booked) -> None:
    """It is booked when the last of its calls is judged."""
    ledger.response("turn", ["a", "b"], USAGE, "both")
    ledger.judged("turn", "a", is_loop=True)
    assert booked == []
    ledger.judged("turn", "b", is_loop=True)
    assert booked == [("both", True)]


def test_one_call_that_is_work_makes_the_response_work(ledger: UsageLedger, booked: Booked) -> None:
    """It is booked once, whatever is said of its other calls later."""
    ledger.response("turn", ["a", "b", "c"], USAGE, "mixed")
    ledger.judged("turn", "a", is_loop=True)
    ledger.judged("turn", "b", is_loop=False)
    ledger.judged("turn", "c", is_loop=True)
    ledger.close("turn")
    assert booked == [("mixed", False)]


def test_a_call_that_was_not_judged_is_work(ledger: UsageLedger, booked: Booked) -> None:
    """The end of the turn books what is left of that turn, and of no other."""
    ledger.response("turn", ["a", "b"], USAGE, "left")
    ledger.response("other", ["a"], USAGE, "other")
    ledger.judged("turn", "a", is_loop=True)
    ledger.close("turn")
    assert booked == [("left", False)]
    ledger.judged("other", "a", is_loop=True)
    assert booked == [("left", False), ("other", True)]


def test_an_id_that_comes_again_belongs_to_the_later_response(ledger: UsageLedger, booked: Booked) -> None:
    """Some servers number the calls of each response from 0: a call of the earlier one that still waits is work."""
    ledger.response("turn", ["0", "1"], USAGE, "first")
    ledger.response("turn", ["0"], USAGE, "second")
    ledger.judged("turn", "0", is_loop=True)
    assert booked == [("first", False), ("second", True)]


def test_calls_that_no_response_wrote_are_ignored(ledger: UsageLedger, booked: Booked) -> None:
    """Most calls are of clients that are not read."""
    ledger.judged("turn", "a", is_loop=True)
    ledger.response("turn", ["a"], USAGE, "later")
    ledger.judged("turn", "b", is_loop=True)
    ledger.close("nowhere")
    assert booked == []


def test_the_first_call_of_a_response_carries_its_usage(ledger: UsageLedger) -> None:
    """So that the tokens are on one span, however many calls the response wrote."""
    ledger.response("turn", ["a", "b"], USAGE, None)
    assert ledger.written_first("turn", "a") == USAGE
    assert ledger.written_first("turn", "b") is None
    assert ledger.written_first("turn", "c") is None
    assert ledger.written_first("other", "a") is None


def test_the_memory_is_bounded(ledger: UsageLedger, booked: Booked, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest response is booked as work, and a response waits for the first of its calls only."""
    monkeypatch.setattr(usage_module, "MOST_RESPONSES", 3)
    monkeypatch.setattr(usage_module, "MOST_CALLS", 2)
    for number in range(5):
        ledger.response(f"turn {number}", ["a", "b", "c"], USAGE, number)
    assert booked == [(0, False), (1, False)]
    for call_id in "abc":
        ledger.judged("turn 4", call_id, is_loop=True)
    assert booked[2:] == [(4, True)]


def test_the_oldest_response_is_booked_once_if_its_id_comes_again(
    ledger: UsageLedger, booked: Booked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes room in both ways at the same time."""
    monkeypatch.setattr(usage_module, "MOST_RESPONSES", 1)
    ledger.response("turn", ["a"], USAGE, "first")
    ledger.response("turn", ["a"], USAGE, "second")
    ledger.close("turn")
    assert booked == [("first", False), ("second", False)]


def test_nothing_is_left_of_what_is_booked(ledger: UsageLedger) -> None:
    """A turn that is over leaves no entry."""
    ledger.response("turn", ["a", "b"], USAGE, None)
    ledger.judged("turn", "a", is_loop=True)
    ledger.response("turn", ["c"], USAGE, None)
    ledger.close("turn")
    ledger.response("turn", ["d"], USAGE, None)
    ledger.judged("turn", "d", is_loop=True)
    assert (ledger._by_turn, ledger._waiting) == ({}, {})


def test_a_fork_leaves_the_parents_requests_to_the_parent(ledger: UsageLedger, booked: Booked) -> None:
    """The child has none of them, and a lock that no other thread holds."""
    ledger.response("turn", ["a"], USAGE, "parent")
    before = ledger._lock
    ledger.clear()
    ledger.close("turn")
    assert booked == []
    assert ledger._lock is not before


def test_the_book_is_called_outside_of_the_lock() -> None:
    """Another thread can use the ledger while a request is booked: the SDK may be slow."""
    free: list[bool] = []

    def book(_usage: Usage, _context: Any, *, is_loop: bool) -> None:
        def elsewhere() -> None:
            free.append(ledger._lock.acquire(blocking=False))
            if free[-1]:
                ledger._lock.release()

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    ledger = UsageLedger(book)
    ledger.response("turn", [], USAGE, None)
    ledger.response("turn", ["a"], USAGE, None)
    ledger.judged("turn", "a", is_loop=True)
    ledger.response("turn", ["a"], USAGE, None)
    ledger.response("turn", ["a"], USAGE, None)
    ledger.close("turn")
    assert free == [True] * 4


def test_threads_book_each_request_once() -> None:
    """Many turns at the same time, each with its own calls; and two threads that judge the same ones."""
    booked = Booked()
    ledger = UsageLedger(booked)
    numbers = range(300)
    for number in numbers:
        ledger.response("shared", [f"{number}a", f"{number}b"], USAGE, ("shared", number))

    def work(turn: str) -> None:
        for number in numbers:
            ledger.response(turn, ["a", "b"], USAGE, (turn, number))
            for call_id in "ab":
                ledger.judged("shared", f"{number}{call_id}", is_loop=True)
                ledger.judged(turn, call_id, is_loop=bool(number % 2))

    threads = [threading.Thread(target=work, args=(f"turn {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {((f"turn {turn}", number), bool(number % 2)) for turn in range(8) for number in numbers}
    assert len(booked) == len(set(booked)) == 9 * 300
    assert set(booked) == expected | {(("shared", number), True) for number in numbers}


# --- against a reference -----------------------------------------------------------------------------------------

TURNS = st.sampled_from("xy")
IDS = st.sampled_from("abcd")
STEPS = st.lists(
    st.tuples(st.just("response"), TURNS, st.lists(IDS, max_size=3))
    | st.tuples(st.just("judged"), TURNS, IDS, st.booleans())
    | st.tuples(st.just("close"), TURNS),
    max_size=40,
)


def reference(steps: list[tuple[Any, ...]]) -> dict[int, bool]:
    """Find for each response, by reading all that follows it, whether it was a step of a loop; absent if unknown."""
    found = {}
    for number, (kind, turn, *rest) in enumerate(steps):
        if kind != "response":
            continue
        judgements: dict[str, bool] = {}
        over = False
        for later, of_turn, *what in steps[number + 1 :]:
            if of_turn != turn:
                continue
            if later == "judged" and not over:
                judgements.setdefault(what[0], what[1])
            waiting = set(rest[0]) - judgements.keys()
            decided = not waiting or any(not judgements.get(one, True) for one in rest[0])
            if decided:
                break
            if later == "close" or (later == "response" and waiting & set(what[0])):
                over = True
                break
        waiting = set(rest[0]) - judgements.keys()
        is_work = not rest[0] or over or any(not judgements.get(one, True) for one in rest[0])
        if is_work or not waiting:
            found[number] = not is_work
    return found


@given(STEPS)
@settings(max_examples=500)
def test_the_ledger_equals_the_reference(steps: list[tuple[Any, ...]]) -> None:
    """Each response is booked once, with the step that the reference finds, or waits."""
    booked = Booked()
    ledger = UsageLedger(booked)
    for number, (kind, turn, *rest) in enumerate(steps):
        if kind == "response":
            ledger.response(turn, rest[0], USAGE, number)
        elif kind == "judged":
            ledger.judged(turn, rest[0], is_loop=rest[1])
        else:
            ledger.close(turn)
    assert len(booked) == len(dict(booked))
    assert dict(booked) == reference(steps)
