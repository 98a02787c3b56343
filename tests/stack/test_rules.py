"""The rules: valid, tested by promtool, and tested by tests that can fail."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from dashboards.alerts import ALERTS, Alert

from .harness.programs import ROOT, need

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOME = ROOT / "dashboards" / "prometheus"


def promtool(*arguments: str, cwd: Path = HOME) -> subprocess.CompletedProcess[str]:
    command = [need("promtool"), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=400, check=False)


def test_config_and_rules_are_valid() -> None:
    """Prometheus would load both files."""
    result = promtool("check", "config", "prometheus.yml")

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("tests", ["rules_test.yml", "rules_hours_test.yml"])
def test_rules_do_what_their_tests_say(tests: str) -> None:
    """Range numbers are exact; each alert is silent a minute before, fires on the minute, and resolves."""
    result = promtool("test", "rules", tests)

    assert result.returncode == 0, result.stdout


def test_every_alert_is_tested_to_fire(tmp_path: Path) -> None:
    """With alerts that never fire, the test of each one fails."""
    assert failing_alerts(tmp_path, lambda _: "vector(0) > 1") == {alert.name for alert in ALERTS}


def test_every_alert_is_tested_to_be_silent(tmp_path: Path) -> None:
    """With alerts that always fire, the test of each one fails."""
    assert failing_alerts(tmp_path, lambda expr: f"({expr}) or vector(1)") == {alert.name for alert in ALERTS}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_has_a_runbook(alert: Alert) -> None:
    """The page that an alert links to exists, names the alert, and has instructions for it."""
    page = ROOT / "docs" / "runbooks" / alert.runbook.rsplit("/", 1)[1]
    text = page.read_text()

    assert alert.name in text
    assert "## Check" in text
    assert "## Do" in text


def failing_alerts(folder: Path, change: Callable[[str], str]) -> set[str]:
    """The alerts whose tests fail when every alert's query is changed."""
    rules = yaml.safe_load((HOME / "rules.yml").read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule]
    for alert in alerts:
        alert["expr"] = change(alert["expr"])
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    (folder / "rules_test.yml").write_text((HOME / "rules_test.yml").read_text())
    result = promtool("test", "rules", "rules_test.yml", cwd=folder)
    return set(re.findall(r"alertname: (\w+)", result.stdout + result.stderr))


def test_grafana_alerts_are_prometheus_alerts() -> None:
    """The provisioning file has the same alerts, queries, waits and severities, and fires on the same condition."""
    prometheus = yaml.safe_load((HOME / "rules.yml").read_text())["groups"][0]["rules"]
    path = ROOT / "dashboards" / "grafana" / "provisioning" / "alerting" / "loopguard.yaml"
    grafana = yaml.safe_load(path.read_text())["groups"][0]["rules"]

    assert [
        (r["alert"], f"sum without () (\n  {r['expr']}\n)", r["for"], r.get("keep_firing_for", "0s"), r["labels"])
        for r in prometheus
        if "alert" in r
    ] == [(r["title"], r["data"][0]["model"]["expr"], r["for"], r["keepFiringFor"], r["labels"]) for r in grafana]
    for rule in grafana:
        assert rule["condition"] == rule["data"][1]["refId"]
        assert not re.search(r"\$value |\| query", "".join(rule["annotations"].values()))
        assert len(rule["uid"]) <= 40
