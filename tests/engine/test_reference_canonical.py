"""The naive reference alone meets the goals of the design, on canonical traces and on real runs."""

from __future__ import annotations

import pytest

from tests.engine.judges import corpus, measure, runner, traces
from tests.engine.judges.seed import HINT, SEED
from tests.engine.reference.judge import NaiveTurn

FINDABLE = ("named", "prefixed", "camel")


def reference(trace, clock):
    return NaiveTurn(contracts=trace.contracts, clock=clock)


@pytest.mark.parametrize("name", traces.kinds(stuck=True))
def test_the_page_stops_who_is_stuck(name):
    """A call of a stuck agent is refused under all tool names, unless only the name shows the loop."""
    for naming in traces.NAMINGS:
        trace = traces.trace(name, naming, SEED)
        if naming in FINDABLE or not trace.kind.blind:
            assert runner.run(trace, reference).refused, f"{trace} went on; {HINT}"


@pytest.mark.parametrize("name", traces.kinds(stuck=False))
def test_the_page_lets_who_works_work(name):
    """No call of a working agent is refused, whatever the names of its tools are."""
    for naming in traces.NAMINGS:
        trace = traces.trace(name, naming, SEED)
        assert not runner.run(trace, reference).refused, f"{trace} was refused; {HINT}"


def test_a_stubborn_agent_is_aborted():
    """A run with many refusals without news in between is ended."""
    course = runner.run(traces.trace("exact_repeat", "named", SEED), reference)
    assert course.aborted, HINT
    assert len(course.nudged) >= 1, HINT


@pytest.mark.skipif(not corpus.files(), reason="the corpora are not here")
def test_the_page_meets_its_goals_on_real_runs():
    """No news is withheld in successful runs, all labelled loops are found, no legitimate repeat is refused."""
    replayed = measure.replay_all(corpus.CORPORA, measure.reference_turn)
    everything = [run for found in replayed.values() for run in found]
    figures, verdicts = measure.figures(everything), measure.verdicts(everything, corpus.labels())
    assert figures.withheld == []
    assert verdicts.missed == []
    assert verdicts.legit_refused == []
    assert figures.nudged <= 0.05 * figures.successful
