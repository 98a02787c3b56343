"""Prometheus's rules file and Grafana's alert provisioning, from ``alerts``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from dashboards.alerts import ALERTS, RECORDINGS, Alert

if TYPE_CHECKING:
    from collections.abc import Callable

# The uid of the data source in grafana/provisioning/datasources.
PROMETHEUS_UID = "loopguard-prometheus"

HEADER = "# Made by `make dashboards` from dashboards/alerts.py; change it there.\n"


def prometheus_rules() -> str:
    """The rules file as text."""
    recorded = [{"record": each.record, "expr": each.expr} for each in RECORDINGS]
    # One group: its rules are evaluated in order, so that alerts use series that were just recorded. Two groups are
    # evaluated in parallel, and an alert could be an interval late.
    group = {"name": "loopguard", "rules": recorded + [_alert(each) for each in ALERTS]}
    return HEADER + dump({"groups": [group]})


def grafana_rules() -> str:
    """Render the alerts as a provisioning file; Grafana reads the series that Prometheus recorded."""
    group = {
        "orgId": 1,
        "name": "loopguard",
        "folder": "Agent loops",
        "interval": "1m",
        "rules": [_grafana_alert(each) for each in ALERTS],
    }
    return HEADER + dump({"apiVersion": 1, "groups": [group]})


def fill(text: str, label: Callable[[str], str], value: str) -> str:
    """Replace the ``{placeholders}`` of an alert's text by templates of the rule language."""
    return re.sub(r"\{(\w+)\}", lambda match: value if match[1] == "value" else label(match[1]), text)


def dump(document: Any) -> str:
    """Readable YAML: keys in our order, long queries in blocks."""
    return yaml.dump(document, Dumper=_Readable, sort_keys=False, width=200, allow_unicode=True)


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.wait,
        "labels": {"severity": alert.severity},
        "annotations": _annotations(alert, "$value"),
    }


def _grafana_alert(alert: Alert) -> dict[str, Any]:
    return {
        "uid": f"loopguard-{alert.page}",
        "title": alert.name,
        "condition": "B",
        "for": alert.wait,
        # The queries return a value only if the alert should fire.
        "noDataState": "OK",
        "execErrState": "Error",
        "labels": {"severity": alert.severity},
        "annotations": _annotations(alert, "$values.A.Value"),
        "data": [_query(alert.expr), _above_zero()],
    }


def _query(expr: str) -> dict[str, Any]:
    model = {"refId": "A", "expr": expr, "instant": True, "range": False, "intervalMs": 1000, "maxDataPoints": 43200}
    # Grafana requires a range for an instant query, too; only its end matters.
    return {
        "refId": "A",
        "datasourceUid": PROMETHEUS_UID,
        "relativeTimeRange": {"from": 600, "to": 0},
        "model": model,
    }


def _above_zero() -> dict[str, Any]:
    expressions = {"type": "__expr__", "uid": "__expr__"}
    above = {"evaluator": {"type": "gt", "params": [0]}}
    model = {"refId": "B", "type": "threshold", "expression": "A", "conditions": [above], "datasource": expressions}
    return {
        "refId": "B",
        "datasourceUid": "__expr__",
        "relativeTimeRange": {"from": 0, "to": 0},
        "model": model,
    }


def _annotations(alert: Alert, value: str) -> dict[str, str]:
    number = "humanizePercentage" if alert.number == "percentage" else f'printf "{alert.number}"'
    shown = f"{{{{ {value} | {number} }}}}"
    return {
        "summary": fill(alert.summary, _label, shown),
        "description": fill(alert.description, _label, shown),
        "runbook_url": alert.runbook,
    }


def _label(name: str) -> str:
    # The site's label has its OpenTelemetry name; job and instance are Prometheus's labels.
    return f"{{{{ $labels.{'loopguard_site' if name == 'site' else name} }}}}"


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _text)
