"""The promise: every refusal is justified and ends, and in a world of finitely many states every run ends."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from tests.engine.judges.corpus import Clock
from tests.engine.judges.real import Doors
from tests.engine.judges.worlds import AGENTS, PACES, Life, live, world

QUICK = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
SEEDS, PACED = st.integers(0, 10**9), st.sampled_from(sorted(PACES))
LONGEST = {"quick": 800, "steady": 900, "slow": 1100}
LOOKS = ("read", "poll", "unknown")
A_TICK = 1e-6
"""Floats do not add exactly."""


def life(seed: int, pace: str) -> Life:
    return Life(world(seed), Doors, PACES[pace], seed)


@QUICK
@given(SEEDS, PACED, st.sampled_from(AGENTS))
def test_every_run_in_a_finite_world_ends(seed, pace, agent):
    """Whatever the kinds of the tools and the pace of the agent, a run in a finite world is ended."""
    lived = live(seed, agent, life(seed, pace), LONGEST[pace] + 1)
    assert len(lived) <= LONGEST[pace]


@QUICK
@given(SEEDS, PACED, st.sampled_from(AGENTS))
def test_every_refusal_is_justified(seed, pace, agent):
    """A refused call had run before, and no result since then was new in a way that a change explains."""
    lived = live(seed, agent, life(seed, pace), 600)
    for place, refused in enumerate(lived):
        if not refused.refused or refused.insistable:
            continue
        ran = [n for n, other in enumerate(lived[:place]) if other.index == refused.index and not other.refused]
        assert ran, f"call {place} was refused untried"
        changed = [n for n in range(ran[-1] + 1, place) if lived[n].change]
        assert not changed, f"call {place} was refused though call {changed[0]} had changed something since {ran[-1]}"


@QUICK
@given(SEEDS, PACED, st.sampled_from(AGENTS))
def test_every_refusal_of_a_look_is_lifted_by_time(seed, pace, agent):
    """A look that is refused runs after the seconds that its refusal tells, unless 200 calls brought no news."""
    here = life(seed, pace)
    lived = live(seed, agent, here, 600)
    last = lived[-1]
    if not last.refused or last.aborted or last.insistable:
        return
    if last.wait:
        again = here.step(last.index, pause=last.wait + A_TICK)
        assert not again.refused or again.mode == "global_circuit_breaker"
    else:
        assert last.kind not in LOOKS or last.mode == "global_circuit_breaker"


@QUICK
@given(SEEDS, PACED, st.integers(1, 60))
def test_who_waits_as_told_is_let_through(seed, pace, at_most):
    """At any place of a run, the call that was refused runs after the seconds that its refusal tells."""
    here = life(seed, pace)
    for place in range(at_most):
        lived = here.step(place % len(here.here.calls))
        if lived.aborted:
            return
        if lived.wait:
            assert not here.step(lived.index, pause=lived.wait + A_TICK).refused


@QUICK
@given(SEEDS, PACED, st.sampled_from(AGENTS))
def test_an_insistable_refusal_lets_the_call_run_when_it_is_made_again(seed, pace, agent):
    """Once it was refused as often as its price says; the first time that is once."""
    refused: dict[int, int] = {}
    for one in live(seed, agent, life(seed, pace), 600):
        if one.insistable:
            refused[one.index] = refused.get(one.index, 0) + 1
            assert refused[one.index] <= one.price
        elif not one.refused:
            refused.pop(one.index, None)


def looks(every: float, at_most: int = 60) -> tuple[list[int], list[int], int | None]:
    """Make one call again and again at this pace: the runs, the refusals and the end, counted from 1."""
    clock = Clock()
    turn = Guard(Policy(tools={"t": ToolContract(kind="read")}), clock=clock).turn()
    call, ran, refused = ToolCall("t", {"a": 1}), [], []
    for number in range(1, at_most + 1):
        decision = turn.begin(call)
        if decision.runs:
            ran.append(number)
            turn.end(call, Outcome("the same answer " * 9))
        else:
            refused.append(number)
            if decision.action == Action.ABORT:
                return ran, refused, number
        clock.now += every
    return ran, refused, None


@pytest.mark.parametrize(
    ("every", "first_refused", "ended", "runs"), [(1, 3, 14, 3), (10, 9, 23, 11), (12, 9, 23, 11), (30, 10, 24, 12)]
)
def test_a_look_at_one_thing_is_refused_the_later_the_slower_it_is(every, first_refused, ended, runs):
    """A hasty look is refused at the third; one every 10 to 30 s from the ninth or tenth on, and it ends the run."""
    ran, refused, end = looks(every)
    assert refused[0] == first_refused
    assert (end, len(ran)) == (ended, runs)


@pytest.mark.parametrize(("every", "first_refused"), [(40, 17), (60, 32), (3600, 36)])
def test_a_slow_look_is_refused_when_its_share_of_the_time_is_small(every, first_refused):
    """A look every 40 s is refused at the 17th, one every minute at the 32nd, one every hour at the 36th."""
    assert looks(every)[1][0] == first_refused


def test_a_hasty_look_runs_after_10_20_and_40_seconds():
    """Who waits as the refusal tells waits twice as long each time that the answer is the same."""
    clock = Clock()
    turn = Guard(Policy(tools={"t": ToolContract(kind="read")}), clock=clock).turn()
    call, waits = ToolCall("t", {"a": 1}), []
    while len(waits) < 3:
        decision = turn.begin(call)
        if decision.runs:
            turn.end(call, Outcome("the same answer " * 9))
            continue
        waits.append(decision.trip.wait)
        clock.now += decision.trip.wait
    assert waits == [10, 20, 40]


@pytest.mark.parametrize("kind", ["read", "write", "shell", "unknown", "poll"])
@pytest.mark.parametrize("every", [2, 20, 60])
def test_numbers_that_go_to_and_fro_end_a_run(kind, every):
    """A result that moves between few states ends the run, however slow the agent is."""
    clock = Clock()
    turn = Guard(Policy(tools={"t": ToolContract(kind=kind)}), clock=clock).turn()
    call, made = ToolCall("t", {"a": 1}), 0
    while (decision := turn.begin(call)).action != Action.ABORT:
        if decision.runs:
            turn.end(call, Outcome(f"it is {(3, 7, 5)[made % 3]} degrees in the shade"))
        made += 1
        clock.now += every
        assert made <= 600


def test_a_number_that_is_new_each_time_may_be_watched_without_end():
    """A price that is never the same again is worth a look every minute."""
    clock = Clock()
    turn = Guard(Policy(tools={"t": ToolContract(kind="read")}), clock=clock).turn()
    call = ToolCall("t", {"symbol": "X"})
    for made in range(1000):
        assert turn.begin(call).runs
        turn.end(call, Outcome(f"the price is {1000 + made * 7919 % 1009}.5 per share"))
        clock.now += 60


@pytest.mark.parametrize("kind", ["read", "write", "unknown", "poll"])
def test_parallel_calls_are_no_repeats(kind):
    """Sixty-four equal calls that are begun before the first one ends all run."""
    turn = Guard(Policy(tools={"t": ToolContract(kind=kind)})).turn()
    batch = [ToolCall("t", {"a": 1}, call_id=f"c{n}") for n in range(64)]
    assert all(turn.begin(call).runs for call in batch)
    for call in batch:
        turn.end(call, Outcome("same"))
    assert turn.begin(ToolCall("t", {"a": 1}, call_id="after")).runs


def test_untried_calls_of_a_failing_tool_run_less_and_less_often():
    """After nine failures of one shape one refusal buys a run, then two, then four: so the run ends."""
    turn = Guard(Policy(tools={"t": ToolContract(kind="read")})).turn()
    runs = []
    for letter in "abcdefghijklmnopqr":
        call = ToolCall("t", {"path": f"file {letter}"})
        decision = turn.begin(call)
        runs.append(decision.runs)
        if decision.runs:
            turn.end(call, Outcome(error="it broke"))
    assert runs == [True] * 9 + [False, True, False, False, True, False, False, False, False]
    assert decision.action is Action.CONCLUDE
