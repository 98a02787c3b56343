"""The share of refused good runs is bounded as the statistics say."""

from __future__ import annotations

from math import comb

import pytest

from otel_loopguard.cli.calibrate.proof import runs_needed, upper_bound


@pytest.mark.parametrize("runs", [30, 100, 3_000, 1_000_000])
def test_without_a_refusal_it_is_the_rule_of_three(runs):
    """At most 3 of that many runs, with 95 % confidence."""
    assert upper_bound(0, runs) == pytest.approx(3 / runs, rel=0.05)


@pytest.mark.parametrize(("refused", "runs"), [(0, 10), (1, 10), (3, 40), (9, 10), (20, 400)])
def test_at_the_bound_so_few_refusals_have_a_chance_of_5_percent(refused, runs):
    """The definition of the bound, written out, holds."""
    share = upper_bound(refused, runs)
    chance = sum(comb(runs, k) * share**k * (1 - share) ** (runs - k) for k in range(refused + 1))
    assert chance == pytest.approx(0.05, rel=1e-6)


def test_if_all_are_refused_nothing_is_bounded():
    """All runs may be refused then."""
    assert (upper_bound(5, 5), upper_bound(0, 0)) == (1.0, 1.0)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.3])
def test_the_runs_that_are_needed_are_enough_and_one_fewer_is_not(share):
    """The number is the least one."""
    needed = runs_needed(share)
    assert upper_bound(0, needed) <= share < upper_bound(0, needed - 1)
