"""The guard stops stuck agents and no working one, whatever the names of the tools are."""

from __future__ import annotations

import pytest

from tests.engine.judges import runner, traces
from tests.engine.judges.real import EnforcedTurn
from tests.engine.judges.seed import HINT, SEED

FINDABLE = ("named", "prefixed", "camel")
REPEATS = 3


def guarded(trace, clock):
    return EnforcedTurn(trace.contracts, clock)


@pytest.mark.parametrize("name", traces.kinds(stuck=True))
def test_who_is_stuck_is_stopped(name):
    """A call of a stuck agent is refused under all tool names that describe the tools."""
    for seed in range(SEED, SEED + REPEATS):
        for naming in traces.NAMINGS:
            trace = traces.trace(name, naming, seed)
            if naming in FINDABLE or not trace.kind.blind:
                assert runner.run(trace, guarded).refused, f"{trace} went on; {HINT}"


@pytest.mark.parametrize("name", traces.kinds(stuck=False))
def test_who_works_is_left_alone(name):
    """No call of a working agent is refused, whatever the names of its tools are."""
    for seed in range(SEED, SEED + REPEATS):
        for naming in traces.NAMINGS:
            trace = traces.trace(name, naming, seed)
            refused = runner.run(trace, guarded).refused
            assert not refused, f"{trace} was refused {refused[:3]}; {HINT}"


@pytest.mark.parametrize("name", ["exact_repeat", "cycle_of_three", "always_queued", "wandering"])
def test_who_does_not_listen_is_aborted(name):
    """After ten refusals without news the next refusal ends the run."""
    course = runner.run(traces.trace(name, "named", SEED), guarded)
    assert course.aborted, HINT


def test_an_exact_repeat_is_refused_under_every_naming():
    """It is at the third call, or the ninth where the name does not say if a short answer is an acknowledgement."""
    for naming in traces.NAMINGS:
        course = runner.run(traces.trace("exact_repeat", naming, SEED), guarded)
        first = (2,) if naming in FINDABLE else (2, 8)  # by the length of the drawn answer
        assert course.refused[0][0] in first, f"{naming}; {HINT}"
        assert course.refused[0][1] == "generic_repeat", f"{naming}; {HINT}"
