"""docs/accuracy.md is what the code measures."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.accuracy import page, recorded
from benchmarks.exam import shared
from tests.engine.judges import corpus

pytestmark = pytest.mark.skipif(not corpus.files(), reason="the corpora are not here")


@pytest.mark.skipif(not shared.present(), reason="the second examination is not here")
def test_the_page_is_as_measured():
    """The page has the current figures; after a change of a decision, run python -m benchmarks.accuracy."""
    assert page.PAGE.read_text("utf-8").startswith(page.figures(corpus.CORPORA))


@pytest.mark.skipif(not shared.present(), reason="the second examination is not here")
def test_the_weight_of_a_part_is_as_measured():
    """To measure all parts takes minutes: each test run measures the whole rule and two that it draws."""
    measured = subprocess.run(
        [sys.executable, "-m", "benchmarks.ablation", "--check", "2"], check=False, capture_output=True, text=True
    )
    assert measured.returncode == 0, measured.stderr


def test_the_figures_are_what_is_promised():
    """On successful runs nothing new is withheld; every labelled loop is seen, and no legitimate repeat refused."""
    runs = [run for path in corpus.files() for run in corpus.runs(path)]
    row = recorded.measured(runs, "default", corpus.labels())
    assert row.figures.withheld == []
    assert row.verdicts.missed == []
    assert row.verdicts.legit_refused == []
