"""Ask Prometheus what a dashboard's panels ask, and make Grafana's data frames of the answers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.stack.harness.prometheus import Prometheus

Frame = dict[str, Any]
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_SHORTEST_STEP: Final = 15
"""The shipped scrape interval: Grafana's data source asks for no shorter step."""
_POINTS: Final = 1500
"""The most points of a line that Grafana asks for."""


@dataclass(frozen=True)
class Asker:
    """Asks for a time range, with the values of the variables; a variable that is not given is All."""

    prometheus: Prometheus
    begin: float
    end: float
    variables: dict[str, list[str]] = field(default_factory=dict)

    def frames(self, panel: dict[str, Any], dashboard: dict[str, Any]) -> list[Frame]:
        """Return the frames of one panel. Exemplars are left out."""
        targets = [target for target in panel.get("targets") or () if not target.get("exemplar")]
        step = max(_seconds(panel.get("interval", "")), _SHORTEST_STEP, round((self.end - self.begin) / _POINTS))
        found: list[Frame] = []
        for target in targets:
            query = self.filled(target["expr"], dashboard, step)
            series = self._ask(query, step, instant=target["instant"])
            if target.get("format") == "table":
                name = f"Value #{target['refId']}" if len(targets) > 1 else "Value"
                found.append(_table(target["refId"], series, name))
            else:
                found += [_line(target, one, step) for one in series]
        return found

    def filled(self, query: str, dashboard: dict[str, Any], step: int) -> str:
        """Return a query with the values of its variables. Raise ``KeyError`` for a variable that nobody has."""
        values = {
            "__range": f"{round(self.end - self.begin)}s",
            "__interval": f"{step}s",
            "__rate_interval": f"{max(step + _SHORTEST_STEP, 4 * _SHORTEST_STEP)}s",
        }
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                chosen = self.variables.get(variable["name"])
                values[variable["name"]] = f"({'|'.join(chosen)})" if chosen else variable.get("allValue", ".*")
        return re.sub(r"\$(\w+)", lambda found: values[found[1]], query)

    def _ask(self, query: str, step: int, *, instant: bool) -> list[dict[str, Any]]:
        if instant:
            found = self.prometheus.get("query", query=query, time=str(self.end))
            samples = [{"metric": {}, "value": found["result"]}] if found["resultType"] == "scalar" else found["result"]
            return [{"metric": one["metric"], "values": [one["value"]]} for one in samples]
        begin, end = (moment // step * step for moment in (self.begin, self.end))
        span = {"start": str(begin), "end": str(end), "step": str(step)}
        answer: list[dict[str, Any]] = self.prometheus.get("query_range", query=query, **span)["result"]
        return answer


def _table(ref: str, series: list[dict[str, Any]], name: str) -> Frame:
    labels = sorted({label for one in series for label in one["metric"]})
    rows = [(one["metric"], one["values"][-1]) for one in series]
    columns = [
        _field("Time", "time", [_milliseconds(sample) for _, sample in rows]),
        *(_field(label, "string", [metric.get(label, "") for metric, _ in rows]) for label in labels),
        _field(name, "number", [_number(sample) for _, sample in rows]),
    ]
    return {"refId": ref, "fields": columns}


def _line(target: dict[str, Any], series: dict[str, Any], step: int) -> Frame:
    labels, samples = series["metric"], series["values"]
    legend = re.sub(r"{{\s*(\w+)\s*}}", lambda found: labels.get(found[1], ""), target.get("legendFormat") or "")
    # A gap longer than the interval is not bridged.
    times = _field("Time", "time", [_milliseconds(sample) for sample in samples], interval=step * 1000)
    values = _field("Value", "number", [_number(sample) for sample in samples], displayNameFromDS=legend or "Value")
    return {"refId": target["refId"], "fields": [times, {**values, "labels": labels}]}


def _field(name: str, kind: str, values: list[Any], **config: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "values": values, "config": config}


def _milliseconds(sample: list[Any]) -> int:
    return round(float(sample[0]) * 1000)


def _number(sample: list[Any]) -> float | None:
    value = float(sample[1])
    return value if abs(value) != float("inf") and value == value else None  # noqa: PLR0124 - it is no number


def _seconds(duration: str) -> int:
    found = re.fullmatch(r"(\d+)([smh])", duration)
    return int(found[1]) * _UNITS[found[2]] if found else 0
