"""Each call of a shared turn counts once, whatever became of the swaps that brought it to the store."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.store.processes import World

FAULTS = ([], [], ["timed out"], ["refused"], ["timed out"] * 3, ["refused", "timed out"])


@settings(
    max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)
@given(seed=st.integers(0, 2**32))
def test_each_call_counts_once(seed, no_pauses):
    """Though a swap is refused, or its answer is lost: a record has the number of the calls before it."""
    rng, world = random.Random(seed), World(3)
    for _ in range(30):
        world.store.faults = list(rng.choice(FAULTS))
        world.call(rng.choice(world.processes), "read_file", f"result {rng.random()}", path=str(rng.randrange(8)))
    world.store.faults = []
    for guard in world.processes:
        world.call(guard, "read_file", "the last one", path="last")
    _, decision = world.begin(world.process(), "read_file", path="the 34th")
    assert decision.record.index == 33
