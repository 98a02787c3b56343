"""The pictures of the dashboards: everything in the dashboards can be drawn, and what cannot is named."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from dashboards.pictures import known
from dashboards.pictures.frames import Asker

from .harness.programs import ROOT

BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "dashboards" / "json").glob("*.json"))}
PAGE = ROOT / "dashboards" / "pictures" / "page" / "panel.tsx"
JOB = {"list": [{"name": "job", "type": "query", "allValue": ".*"}]}
DASHBOARD = {"templating": JOB}


class Answers:
    """Stands for Prometheus: gives each question the same answer, and keeps the questions."""

    def __init__(self, *series: dict[str, Any]) -> None:
        self.series = series
        self.asked: list[dict[str, str]] = []

    def get(self, path: str, **parameters: str) -> Any:
        """Answer as the HTTP API does."""
        self.asked.append({"path": path, **parameters})
        return {"resultType": "vector", "result": list(self.series)}


def asker(answers: Answers, **variables: list[str]) -> Asker:
    return Asker(answers, 1000.0, 1900.0, variables)  # type: ignore[arg-type]  # it has the one method that is used


def changed(change: Any) -> dict[str, Any]:
    """The overview with a change to a copy of its first table."""
    board: dict[str, Any] = deepcopy(BOARDS["overview"])
    change(next(panel for panel in board["panels"] if panel["type"] == "table"))
    return board


@pytest.mark.parametrize("name", BOARDS)
def test_all_of_the_dashboards_can_be_drawn(name: str) -> None:
    """A new kind of panel, transformation, cell, option or property has to be added to the page."""
    known.check(BOARDS[name])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda panel: panel.update(type="piechart"), "a panel of type piechart"),
        (lambda panel: panel.update(timeFrom="1h"), "the key timeFrom"),
        (lambda panel: panel["options"].update(wrap=True), "the option of a table wrap"),
        (lambda panel: panel["transformations"].append({"id": "reduce"}), "the transformation reduce"),
        (lambda panel: panel["fieldConfig"]["defaults"].update(mappings=[]), "the property mappings"),
        (lambda panel: panel["fieldConfig"]["defaults"].update(custom={"align": "left"}), "the property custom.align"),
        (
            lambda panel: panel["fieldConfig"]["overrides"].append(
                {"matcher": {"id": "byName"}, "properties": [{"id": "custom.cellOptions", "value": {"type": "gauge"}}]}
            ),
            "the cell gauge",
        ),
        (lambda panel: panel["targets"][0]["datasource"].update(type="loki"), "the data source loki"),
    ],
)
def test_what_cannot_be_drawn_is_named(change: Any, name: str) -> None:
    """It is an error, because a picture without it would be wrong."""
    with pytest.raises(ValueError, match=name):
        known.check(changed(change))


def test_the_page_has_a_case_for_each_kind_of_panel() -> None:
    """A heading is drawn by the grid, and a text has no frames."""
    page = PAGE.read_text()
    assert [kind for kind in sorted(known.PANELS - {"row"}) if f"'{kind}'" not in page] == []


def test_variables_have_their_values_in_a_query() -> None:
    """All is the variable's own pattern; several values are alternatives."""
    query = 'sum(rate(x{job=~"$job"}[$__range]))'
    assert asker(Answers()).filled(query, DASHBOARD, 60) == 'sum(rate(x{job=~".*"}[900s]))'
    assert asker(Answers(), job=["a", "b"]).filled(query, DASHBOARD, 60) == 'sum(rate(x{job=~"(a|b)"}[900s]))'


def test_an_unknown_variable_is_an_error() -> None:
    """It would be sent to Prometheus as it is."""
    with pytest.raises(KeyError, match="tenant"):
        asker(Answers()).filled("x{tenant='$tenant'}", DASHBOARD, 60)


def test_a_table_has_a_column_for_each_label_and_one_for_the_values() -> None:
    """With several targets the column of values has the target's letter, as in Grafana."""
    answers = Answers({"metric": {"job": "a"}, "value": [1900, "3"]}, {"metric": {"job": "b"}, "value": [1900, "NaN"]})
    target = {"expr": "x", "instant": True, "format": "table", "refId": "A"}
    asking = asker(answers)
    (frame,) = asking.frames({"targets": [target]}, DASHBOARD)
    assert {field["name"]: field["values"] for field in frame["fields"]} == {
        "Time": [1_900_000, 1_900_000],
        "job": ["a", "b"],
        "Value": [3.0, None],
    }
    frames = asking.frames({"targets": [target, {**target, "refId": "B"}]}, DASHBOARD)
    assert [frame["fields"][-1]["name"] for frame in frames] == ["Value #A", "Value #B"]


def test_a_line_has_the_name_of_its_legend_and_whole_steps() -> None:
    """Begin and end are multiples of the step, so that lines do not change with each second."""
    answers = Answers({"metric": {"job": "a"}, "values": [[960, "1"], [1020, "2"]]})
    target = {"expr": "x", "instant": False, "legendFormat": "of {{job}}", "refId": "A"}
    exemplars = {"expr": "y @ 0", "instant": False, "exemplar": True, "refId": "X"}
    (frame,) = asker(answers).frames({"interval": "1m", "targets": [target, exemplars]}, DASHBOARD)
    assert frame["fields"][1]["config"] == {"displayNameFromDS": "of a"}
    assert answers.asked == [{"path": "query_range", "query": "x", "start": "960.0", "end": "1860.0", "step": "60"}]
