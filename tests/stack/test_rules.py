"""The rules: valid, tested by promtool, and tested by tests that can fail."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from dashboards.alerts import ALERTS, Alert

from .harness.programs import ROOT, need

if TYPE_CHECKING:
    from pathlib import Path

HOME = ROOT / "dashboards" / "prometheus"


def promtool(*arguments: str, cwd: Path = HOME) -> subprocess.CompletedProcess[str]:
    """Run promtool; its memory is collected seldom, which takes a quarter of the time."""
    command, environment = [need("promtool"), *arguments], {**os.environ, "GOGC": "400"}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=550, check=False, env=environment)


def test_config_and_rules_are_valid() -> None:
    """Prometheus would load both files."""
    result = promtool("check", "config", "prometheus.yml")

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("tests", ["rules_test.yml", "rules_hours_test.yml"])
def test_rules_do_what_their_tests_say(tests: str) -> None:
    """Range numbers are exact; each alert is silent a minute before, fires on the minute, and resolves."""
    result = promtool("test", "rules", tests)

    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("expected", "always"),
    [("firing", "vector(0) > 1"), ("silent", "vector(1)")],
    ids=["never fires", "always fires"],
)
def test_the_tests_of_an_alert_fail_if_it(expected: str, always: str, tmp_path: Path) -> None:
    """If no alert fires, a test of each one that expects it fails; if all fire, one that expects silence.

    The queries do not matter then: the alerts are tested without the recordings, and their tests without those.
    """
    rules, tests = (yaml.safe_load((HOME / name).read_text()) for name in ("rules.yml", "rules_test.yml"))
    for group in rules["groups"]:
        group["rules"] = [{**rule, "expr": always} for rule in group["rules"] if "alert" in rule]
    for test in tests["tests"]:
        test.pop("promql_expr_test", None)
        wanted = [one for one in test.get("alert_rule_test", ()) if ("exp_alerts" in one) is (expected == "firing")]
        test["alert_rule_test"] = wanted
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules))
    (tmp_path / "rules_test.yml").write_text(yaml.safe_dump(tests))
    result = promtool("test", "rules", "rules_test.yml", cwd=tmp_path)

    assert set(re.findall(r"alertname: (\w+)", result.stdout + result.stderr)) == {alert.name for alert in ALERTS}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_has_a_runbook(alert: Alert) -> None:
    """The page that an alert links to exists, names the alert, and has instructions for it."""
    page = ROOT / "docs" / "runbooks" / alert.runbook.rsplit("/", 1)[1]
    text = page.read_text()

    assert alert.name in text
    assert "## Check" in text
    assert "## Do" in text


def test_runbooks_name_panels_that_exist() -> None:
    """What is bold in a runbook is a panel of the dashboards, but for its first word and for what it quotes."""
    boards = [board.read_text() for board in (ROOT / "dashboards" / "json").glob("*.json")]
    titles = {title for board in boards for title in titles_of(board)}
    pages = list((ROOT / "docs" / "runbooks").glob("*.md"))
    named = [(page.name, bold) for page in pages for bold in re.findall(r"\*\*([^*`]+)\*\*", page.read_text())]
    wrong = [one for one in named if one[1] not in titles and not re.match(r"(Page|Ticket)\b", one[1])]
    assert len(named) > 2 * len(pages)
    assert wrong == []


def test_each_recording_is_asked_for() -> None:
    """A panel, an alert, a page or another recording reads it; one that nothing reads costs time and room."""
    rules = [rule for group in yaml.safe_load((HOME / "rules.yml").read_text())["groups"] for rule in group["rules"]]
    boards = [path.read_text() for path in (ROOT / "dashboards" / "json").glob("*.json")]
    pages = [path.read_text() for path in (ROOT / "docs").rglob("*.md")]
    recorded = {rule["record"]: rule["expr"] for rule in rules if "record" in rule}
    alerts = [str(rule) for rule in rules if "alert" in rule]

    def asked(record: str) -> bool:
        others = [query for other, query in recorded.items() if other != record]
        return any(re.search(rf"(?<![\w:]){record}(?![\w:])", text) for text in (*boards, *pages, *alerts, *others))

    assert len(recorded) > len(alerts)
    assert [record for record in recorded if not asked(record)] == []


def titles_of(board: str) -> list[str]:
    """The titles of all panels of a dashboard."""
    return re.findall(r'"title": "([^"]+)"', board)


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
