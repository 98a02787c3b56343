"""Agents that work, and one that loops, through the replicas of a gateway with one store."""

from __future__ import annotations

import random

import pytest

from tests.gateway.simulation import Agent, Replica, run, spans
from tests.store.memory import FlakyStore


def agents_of(seed: int) -> list[Agent]:
    """One that loops, and eight that work, with a question each."""
    return [Agent(f"what is in queue {seed}-{number}?", loops=number == 0) for number in range(9)]


REPLICAS = pytest.mark.parametrize("count", [1, 2, 3])


@REPLICAS
@pytest.mark.parametrize("seed", range(3))
async def test_a_loop_ends_and_work_is_left_alone(count: int, seed: int) -> None:
    """The loop has nine calls, as through one gateway; no worker is told a word, and each call is reported once."""
    store = FlakyStore()
    replicas, agents = [Replica(store) for _ in range(count)], agents_of(seed)
    await run(agents, replicas, random.Random(seed))
    loop, *workers = agents
    assert (loop.ran, loop.answered) == (9, True)
    assert [(one.ran, one.answered, one.told) for one in workers] == [(12, True, 0)] * 8
    assert spans(replicas) == sum(one.ran for one in agents)


@REPLICAS
@pytest.mark.parametrize("seed", range(3))
async def test_requests_that_are_sent_again_change_nothing(count: int, seed: int) -> None:
    """A client that did not get a reply asks again: no worker is told a word, and the loop ends."""
    store = FlakyStore()
    replicas, agents = [Replica(store) for _ in range(count)], agents_of(seed)
    await run(agents, replicas, random.Random(seed), lost=0.3)
    loop, *workers = agents
    assert loop.answered
    assert loop.ran <= 12
    assert [(one.ran, one.answered, one.told) for one in workers] == [(12, True, 0)] * 8


@pytest.mark.parametrize("fault", ["away", "empty", "fail_over"])
async def test_a_store_that_fails_has_no_worker_told(fault: str) -> None:
    """The loop ends all the same."""
    store, rng = FlakyStore(), random.Random(fault)
    replicas, agents = [Replica(store) for _ in range(3)], agents_of(0)

    def disturb(rng: random.Random) -> None:
        if rng.random() < 0.1:
            {"away": store.away, "empty": lambda _: store.empty(), "fail_over": store.fail_over}[fault](2)

    await run(agents, replicas, rng, disturb)
    loop, *workers = agents
    assert loop.answered
    assert loop.ran < 100
    assert [(one.ran, one.answered, one.told) for one in workers] == [(12, True, 0)] * 8
