"""The texts of real agents: what acts by default harms no run that succeeded."""

from __future__ import annotations

import pytest

from otel_loopguard import Action
from tests.engine.judges import words

pytestmark = pytest.mark.skipif(not words.FILE.exists(), reason="the corpora are not here")


@pytest.fixture(scope="module")
def replayed():
    return list(words.runs())


def test_no_successful_run_is_told_or_ended(replayed):
    """At no request of theirs something acts."""
    ok = [run for run in replayed if run.success]
    assert len(ok) > 1_000
    assert [trip for run in ok for trip in run.trips if trip.action > Action.OBSERVE] == []


def test_few_successful_runs_are_observed(replayed):
    """At most one in a hundred."""
    ok = [run for run in replayed if run.success]
    assert sum(bool(run.trips) for run in ok) <= 0.01 * len(ok)


def test_stuck_runs_are_seen(replayed):
    """Of those that failed some are told, and many more observed, in words and in blocks."""
    failed = [run for run in replayed if run.success is False]
    assert {trip.mode for run in failed for trip in run.trips} == {"text_repeat", "text_run"}
    assert any(trip.action is Action.NUDGE for run in failed for trip in run.trips)
    assert sum(bool(run.trips) for run in failed) >= 100
