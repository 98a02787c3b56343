"""docs/accuracy.md is what the code measures."""

from __future__ import annotations

import re

import pytest

from benchmarks import accuracy
from benchmarks.exam import families, shared
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


def test_no_kept_kind_is_named():
    """Who reads the page cannot tune the rule to a kind that is kept from the tuning."""
    text = accuracy.PAGE.read_text("utf-8")
    assert [name for name in families.KEPT if name in text] == []


@pytest.mark.parametrize("table", [0, 1])
def test_the_namings_add_up(table):
    """The row of all runs at the usual pace is the sum of its namings, and the conclusions have the same figures."""
    text = accuracy.PAGE.read_text("utf-8")
    found: dict[str, list[list[int]]] = {}
    for title, cells in re.findall(r"^\| (natural|opaque|foreign|all, thought 4-15 s) \| (\d+ of .*) \|$", text, re.M):
        numbers = [int(number) for number in re.findall(r"\d+", cells)]
        found.setdefault(title, []).append(numbers)
    every, *namings = (found[title][table] for title in ("all, thought 4-15 s", *accuracy.FEW_NAMINGS))
    assert every == [sum(column) for column in zip(*namings, strict=True)]
    conclusion = " ".join(text.split("\n- **")[2 + table].split())
    for part, whole in ((0, 1), (2, 3), (6, 7)):
        assert f" {every[part]} of {every[whole]} (" in conclusion
