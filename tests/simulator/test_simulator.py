"""Whatever fails, and whoever interleaves with whom, three promises are kept.

1. Nothing that changed is withheld, and no agent is told of a call that it did not make.
2. An agent that only repeats itself ends.
3. Each message of a user arrives once, or its sender knows that it did not.
"""

from __future__ import annotations

import os
import secrets

import pytest

from tests.simulator.found import FOUND
from tests.simulator.runs import SETTINGS, broken, drawn, drawn_from, report

SEED = int(os.environ.get("LOOPGUARD_SIMULATOR_SEED") or secrets.randbelow(2**32))
STEPS = int(os.environ.get("LOOPGUARD_SIMULATOR_STEPS") or 6_000)


def test_all_promises_are_kept():
    """In runs that no one has seen before."""
    for run in drawn_from(SEED, STEPS):
        if found := broken(run):
            pytest.fail(report(run, found))


@pytest.mark.parametrize("setting", SETTINGS)
def test_all_promises_are_kept_in_each_setting(setting):
    """In two runs of each."""
    for seed in (SEED, SEED + 1):
        run = drawn(seed, setting)
        if found := broken(run):
            pytest.fail(report(run, found))


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_is_mended(name):
    """Each fault that was ever found is played at every run."""
    assert not broken(FOUND[name])
