"""What detectors share: the count at which the model is told, and the trip of a refusal that ends after some time."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.detectors.trips import is_doubled, nudge_limit

from .driver import Driven


@pytest.mark.parametrize(
    ("nudge", "limit", "told"), [(2, 3, 2), (2, 9, 5), (2, 20, 10), (10, 20, 10), (5, 3, 5), (0, 9, 0)]
)
def test_the_model_is_told_at_half_of_the_limit_and_not_before_the_nudge(nudge, limit, told):
    """Half is rounded up; 0 switches nudges off."""
    assert nudge_limit(nudge, limit) == told


def test_a_refusal_says_after_how_many_seconds_the_call_runs_again():
    """Another refusal within them says the seconds that are left."""
    driven = Driven("generic_repeat", modes={"generic_repeat": {"nudge": 0}})
    for _ in range(3):
        driven(path="a")
    assert driven.said[-1].decision.trip.wait == 10
    assert driven(path="a", pause=4.0).trip.wait == 6
    assert driven(path="a", pause=6.0).runs


def test_a_count_is_due_at_its_limit_and_each_time_it_has_doubled():
    """3, 6, 12; no count is due at a limit of 0."""
    assert [count for count in range(1, 26) if is_doubled(count, 3)] == [3, 6, 12, 24]
