"""Prometheus, run with the repository's own configuration and rules, at other ports and intervals."""

from __future__ import annotations

import json
import re
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import yaml

from .process import Program, free_ports
from .programs import ROOT, need

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .collector import Collector

HOME = ROOT / "dashboards" / "prometheus"
PACE = 15
"""The tests run so much faster than the shipped configuration: 15 s are one second, and a minute is four."""
INTERVAL = "1s"
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def quick(expression: str) -> str:
    """The expression with all of its durations divided by the pace: windows, offsets and steps."""

    def divided(duration: re.Match[str]) -> str:
        return f"{int(duration[1]) * UNITS[duration[2]] * 1000 // PACE}ms"

    return re.sub(r"(?<![\w.])(\d+)([smhd])\b", divided, expression)


class Prometheus(Program):
    """A Prometheus that scrapes collectors every second, with rules that are as quick."""

    def __init__(self, folder: Path, *collectors: Collector, alertmanager_port: int | None = None) -> None:
        (self.port,) = free_ports(1)
        config = write_config(folder, collectors, alertmanager_port)
        command = [
            need("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'prometheus-data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--enable-feature=exemplar-storage",
        ]
        super().__init__(command, folder / "prometheus.log", {}, f"http://127.0.0.1:{self.port}/-/ready")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an instant query: ``metric`` and ``value`` each."""
        result: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return result

    def value(self, expression: str) -> float | None:
        """The one value of a query; None where there is no data."""
        samples = self.query(expression)
        assert len(samples) <= 1, f"{expression} has {len(samples)} series"
        return float(samples[0]["value"][1]) if samples else None

    def by(self, label: str, metric: str) -> dict[str, float]:
        """The sums of a metric by one label, without those that are 0."""
        samples = self.query(f"sum by ({label}) ({metric}) > 0")
        return {sample["metric"].get(label, ""): float(sample["value"][1]) for sample in samples}

    def firing(self, name: str) -> list[dict[str, Any]]:
        """The firing alerts of one name."""
        alerts = self.get("alerts")["alerts"]
        return [each for each in alerts if each["labels"]["alertname"] == name and each["state"] == "firing"]

    def exemplars(self, selector: str) -> list[dict[str, Any]]:
        """The exemplars stored for exactly these series."""
        found = self.get("query_exemplars", query=selector, start="0", end="9999999999")
        return [exemplar for series in found for exemplar in series["exemplars"]]

    def get(self, path: str, **parameters: str) -> Any:
        """The data that the HTTP API answers with."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as response:
            return json.load(response)["data"]


def write_config(folder: Path, collectors: Sequence[Collector], alertmanager_port: int | None) -> Path:
    """The repository's configuration with other targets, intervals and waits, and nothing else changed."""
    config = yaml.safe_load((HOME / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL}
    ports = {"loopguard": [each.metrics for each in collectors], "otelcol": [each.own_metrics for each in collectors]}
    for job in config["scrape_configs"]:
        job["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in ports[job["job_name"]]]}]
    config["alerting"]["alertmanagers"] = (
        [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager_port}"]}]}] if alertmanager_port else []
    )
    config["rule_files"] = [str(write_quick_rules(folder))]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path


def write_quick_rules(folder: Path) -> Path:
    """The repository's rules at the pace of the tests; alerts fire, and end, after two seconds."""
    rules = yaml.safe_load((HOME / "rules.yml").read_text())
    for group in rules["groups"]:
        group["interval"] = INTERVAL
        for rule in group["rules"]:
            rule["expr"] = quick(rule["expr"])
            rule["annotations"] = {key: quick(text) for key, text in rule.get("annotations", {}).items()}
            for wait in ("for", "keep_firing_for"):
                if wait in rule:
                    rule[wait] = "2s"
    path = folder / "rules.yml"
    path.write_text(yaml.safe_dump(rules))
    return path
