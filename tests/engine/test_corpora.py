"""The guard on runs of real agents."""

from __future__ import annotations

import pytest

from tests.engine.judges import corpus, measure

pytestmark = pytest.mark.skipif(not corpus.files(), reason="the corpora are not here")


@pytest.fixture(scope="module")
def replayed():
    return [r for found in measure.replay_all(corpus.CORPORA, measure.guard_turn).values() for r in found]


def test_nothing_new_is_withheld_on_successful_runs(replayed):
    """No call of a successful run is refused if its result was new in its turn."""
    assert measure.figures(replayed).withheld == []


def test_every_labelled_loop_is_seen(replayed):
    """Every repeat that was judged a loop by hand is nudged or refused in time."""
    assert measure.verdicts(replayed, corpus.labels()).missed == []


def test_most_labelled_loops_are_refused(replayed):
    """Of the labelled loops at least two thirds are refused; the others ended by themselves first."""
    verdicts = measure.verdicts(replayed, corpus.labels())
    assert verdicts.loops_refused * 3 >= verdicts.loops * 2


def test_no_labelled_legitimate_repeat_is_refused(replayed):
    """No repeat that was judged legitimate by hand is refused."""
    assert measure.verdicts(replayed, corpus.labels()).legit_refused == []


def test_few_successful_runs_are_nudged(replayed):
    """At most one in twenty successful runs has a nudge."""
    figures = measure.figures(replayed)
    assert figures.nudged <= 0.05 * figures.successful
