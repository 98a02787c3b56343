"""docs/accuracy.md is what the code measures."""

from __future__ import annotations

import pytest

from benchmarks import accuracy
from benchmarks.exam import shared
from tests.engine.judges import corpus

pytestmark = pytest.mark.skipif(not corpus.files(), reason="the corpora are not here")


@pytest.mark.skipif(not shared.present(), reason="the second examination is not here")
def test_the_page_is_as_measured():
    """The page has the current figures; after a change of a decision, run python -m benchmarks.accuracy."""
    assert accuracy.PAGE.read_text("utf-8") == accuracy.page(corpus.CORPORA)


def test_the_figures_are_what_is_promised():
    """On successful runs nothing new is withheld; every labelled loop is seen, and no legitimate repeat refused."""
    runs = [run for path in corpus.files() for run in corpus.runs(path)]
    row = accuracy.measured(runs, "default", corpus.labels())
    assert row.figures.withheld == []
    assert row.verdicts.missed == []
    assert row.verdicts.legit_refused == []
