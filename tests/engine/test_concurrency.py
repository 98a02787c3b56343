"""Many threads and tasks on one guard: totals exact, no deadlock."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Barrier

from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.vocabulary import Action, First, Outcome, ToolCall, Trip
from otel_loopguard.guard.guard import Guard

MANY = 64
EACH = 20
SOON = 30


def together(work):
    """Run the work in many threads that start at the same moment. Return their results."""
    gate = Barrier(MANY)

    def one(number):
        gate.wait(SOON)
        return work(number)

    with ThreadPoolExecutor(MANY) as pool:
        futures = [pool.submit(one, number) for number in range(MANY)]
        _, late = wait(futures, SOON)
        assert not late, f"{len(late)} threads did not come back"
        return [future.result() for future in futures]


def ran(turn, call, result="ok"):
    """Make one call, and end it if it may run. Return True if it ran."""
    if not turn.begin(call).runs:
        return False
    turn.end(call, Outcome(result))
    return True


def test_a_cap_is_exact_under_threads():
    """64 threads make 20 calls each in one turn: exactly as many run as the cap allows."""
    turn = Guard(Policy(tools={"t": ToolContract(kind="read", cap=100)}, abort_after=0)).turn()

    def work(number):
        return sum(
            ran(turn, ToolCall("t", {"n": number * EACH + n}, f"{number}/{n}"), f"r {number} {n}") for n in range(EACH)
        )

    assert sum(together(work)) == 100


def test_one_trip_of_each_mode_and_action_is_the_first_under_threads():
    """64 threads report the same 20 trips of one turn: each action and each mode has one first trip."""
    turn = Guard().turn()
    trips = [
        Trip(mode, "t", 3, 3, Action.ABORT, action)
        for mode in ("cycle", "ping_pong", "generic_repeat", "user_stop")
        for action in (Action.OBSERVE, Action.NUDGE, Action.BLOCK, Action.CONCLUDE, Action.ABORT)
    ]

    def work(number):
        return [turn.reach(trip) for trip in trips[number % len(trips) :] + trips[: number % len(trips)]]

    answers = [first for found in together(work) for first in found]
    assert answers.count(First.ACTION) == 5
    assert answers.count(First.MODE) == 15


def test_turns_do_not_know_of_each_other_under_threads():
    """64 threads have a turn each: every thread is refused at its own third call."""
    guard = Guard(Policy(tools={"t": ToolContract(kind="read")}))

    def work(number):
        turn = guard.turn()
        return [ran(turn, ToolCall("t", {"a": 1})) for _ in range(5)]

    assert together(work) == [[True, True, False, False, False]] * MANY


def test_identical_calls_of_many_threads_are_no_repeats():
    """64 threads begin the same call before any of them ends it: all run."""
    turn = Guard(Policy(tools={"t": ToolContract(kind="read")})).turn()
    begun = Barrier(MANY)

    def work(number):
        call = ToolCall("t", {"a": 1}, f"c{number}")
        runs = turn.begin(call).runs
        begun.wait(SOON)
        if runs:
            turn.end(call, Outcome("same"))
        return runs

    assert all(together(work))


async def test_a_cap_is_exact_under_tasks():
    """64 tasks call in one turn: exactly as many calls run as the cap allows, and all tasks end."""
    turn = Guard(Policy(tools={"t": ToolContract(kind="read", cap=100)}, abort_after=0)).turn()

    async def work(number):
        count = 0
        for n in range(EACH):
            call = ToolCall("t", {"n": number * EACH + n}, f"{number}/{n}")
            if turn.begin(call).runs:
                await asyncio.sleep(0)
                turn.end(call, Outcome(f"r {number} {n}"))
                count += 1
        return count

    counts = await asyncio.wait_for(asyncio.gather(*(work(number) for number in range(MANY))), SOON)
    assert sum(counts) == 100


def test_a_callback_may_use_the_turn_it_is_called_from():
    """``on_trip`` runs outside every lock: it may call back into the guard from any thread."""
    seen = []

    def look(trip):
        seen.append(trip.mode)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(ran, turn, ToolCall("other", {"n": len(seen)}), "fine").result(SOON)

    turn = Guard(
        Policy(tools={"t": ToolContract(kind="read"), "other": ToolContract(kind="read")}, on_trip=look)
    ).turn()
    runs = [ran(turn, ToolCall("t", {"a": 1})) for _ in range(4)]

    assert runs[:2] == [True, True]
    assert seen
