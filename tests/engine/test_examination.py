"""The examination of benchmarks/exam: its traces are fair, and the default policy keeps its floors on them."""

from __future__ import annotations

import pytest

from benchmarks.exam import families, play
from benchmarks.exam.names import NAMINGS
from benchmarks.exam.trace import trace
from tests.engine.judges.seed import SEED


@pytest.fixture(scope="module")
def rows() -> list[play.Row]:
    """All families under all namings, from one seed: a floor that moved with the seed would be no floor."""
    return play.rows(families.draw(NAMINGS, [0]))


@pytest.mark.parametrize("family", families.ALL.values(), ids=lambda family: family.name)
def test_a_trace_differs_only_in_names_between_namings(family):
    """Texts and times depend on the seed, tools on the naming; the same seed draws the same trace again."""
    one, other = (trace(family.name, naming, SEED) for naming in ("natural", "opaque"))
    assert [call._replace(tool="") for call in one.calls] == [call._replace(tool="") for call in other.calls]
    assert one == trace(family.name, "natural", SEED)


@pytest.mark.parametrize("family", families.ALL.values(), ids=lambda family: family.name)
def test_a_family_is_long_enough_for_its_verdict(family):
    """A stuck agent goes on beyond the call at which it must be refused, and is told before that."""
    calls = trace(family.name, "natural", SEED).calls
    assert [call.begin for call in calls] == sorted(call.begin for call in calls)
    assert family.stuck == (family.told > 0)
    if family.stuck:
        assert family.told <= (family.refused or len(calls)) <= len(calls)


@pytest.mark.parametrize("naming", NAMINGS)
def test_most_stuck_agents_are_stopped_and_few_working_ones_refused(rows, naming):
    """Floors, not figures: the figures are in docs/accuracy.md."""
    figures = play.figures(row for row in rows if row.naming == naming)
    assert figures.stopped >= 0.75 * figures.stuck, figures
    assert figures.told >= 0.65 * figures.stuck, figures
    assert figures.refused <= 0.12 * figures.legit, figures


def test_no_working_agent_is_ended(rows):
    """A working agent is refused a call now and then, but its run goes on."""
    ended = [row for row in rows if not row.family.stuck and any(trip.action == "abort" for trip in row.trips)]
    assert not ended, [(row.family.name, row.naming) for row in ended]
