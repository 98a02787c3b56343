"""Draw runs from seeds, play them, and say how to play again what breaks a promise."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.simulator.gateway import Gateway
from tests.simulator.one_thread import one_thread
from tests.simulator.steps import BrokenPromiseError, Run, Setting, smallest
from tests.simulator.turns import MOST_WELL, LostMessages, Turns

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY = ("empty", "failover", "refused", "timed out", "late", "doubled", "cut", "kill")
WELL, AWAY = MOST_WELL, 100
"""The equal calls after which an agent that only repeats itself was ended, while the store is well, and while it fails
at every fourth step. Seen were 14 and 57."""
SETTINGS = {
    "well": Setting(Turns, hows=("thread", "task", "observed", "loop"), most=WELL),
    **{fault: Setting(Turns, (fault,), 0.25, most=AWAY) for fault in EVERY},
    "all faults": Setting(Turns, EVERY, 0.25, most=AWAY),
    # With half of the answers lost there is no bound for sync code on an event loop: it seldom has a proof.
    "sync code on an event loop": Setting(Turns, EVERY, 0.1, ("loop",), most=AWAY),
    "gateway": Setting(Gateway, most=12),
    "gateway with faults": Setting(Gateway, EVERY[:-2], 0.15, most=12),
}


def drawn(seed: int, setting: str = "") -> Run:
    """Draw the steps of a run."""
    rng = random.Random(seed)
    name = setting or rng.choice(list(SETTINGS))
    return Run(seed, name, SETTINGS[name].world.drawn(rng, SETTINGS[name]))


def drawn_from(seed: int, steps: int) -> Iterator[Run]:
    """Draw runs from this seed and the next ones, until they have so many steps together."""
    while steps > 0:
        run = drawn(seed)
        yield run
        seed, steps = seed + 1, steps - len(run.steps)


def broken(run: Run) -> str:
    """Play a run. Return what broke a promise, or nothing."""
    rng = random.Random(run.seed)
    with one_thread(rng) as loop, LostMessages() as words:
        world = SETTINGS[run.setting].world(loop, rng, SETTINGS[run.setting])
        world.words = words
        try:
            for step in run.steps:
                rng.seed(f"{run.seed}-{step.number}")
                world.do(step)
            rng.seed(f"{run.seed}-end")
            world.finish()
        except BrokenPromiseError as error:
            return str(error)
    return ""


def report(run: Run, found: str) -> str:
    """Say what was broken, by which steps at least, and how to see it again."""
    kind = found.partition(":")[0]
    least = smallest(run, lambda fewer: broken(fewer).startswith(kind))
    steps = "".join(f"\n        {step!r}," for step in least.steps)
    return (
        f"{broken(least)}\n    Run({run.seed}, {run.setting!r}, ({steps}\n    ))\n"
        f"Again: LOOPGUARD_SIMULATOR_SEED={run.seed} python -m pytest tests/simulator"
    )
