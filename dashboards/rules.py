"""Prometheus's rules file and Grafana's provisioning of alerts, made from ``alerts`` and ``recordings``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from dashboards import names
from dashboards.alerts import ALERTS, GRAFANA, Alert
from dashboards.panels import OVERVIEW_UID, panel_id
from dashboards.promql import STEP, in_range
from dashboards.recordings import (
    ACCOUNT,
    RECORDINGS,
    SHARED_TOOL,
    TOOL_TRIPS,
    TURNS_BEYOND,
    TURNS_NOT_STOPPED,
    USUAL,
)

if TYPE_CHECKING:
    from dashboards.recordings import Recording

# The uid of the data source in grafana/provisioning/datasources.
PROMETHEUS_UID = "loopguard-prometheus"

HEADER = "# Made by `make dashboards` from dashboards/alerts.py and dashboards/recordings.py; change it there.\n"


def prometheus_rules() -> str:
    """Return the rules file as text."""
    # One group for all that alerts need: its rules are evaluated in order. Two groups are evaluated in parallel, and an
    # alert could be an interval late. The sums of the recorded minutes need the interval, whatever Prometheus's own is.
    main = {"name": "loopguard", "interval": STEP, "rules": [*map(_recorded, RECORDINGS), *map(_alert, ALERTS)]}
    slow = {"name": "loopguard-usual", "interval": "2m", "rules": [*map(_recorded, USUAL)]}
    return HEADER + dump({"groups": [main, slow]})


def grafana_rules() -> str:
    """Return the provisioning file of the alerts as text. Grafana reads the series that Prometheus records."""
    group = {
        "orgId": 1,
        "name": "loopguard",
        "folder": "Agent loops",
        "interval": "1m",
        "rules": [_grafana_alert(each) for each in ALERTS],
    }
    return HEADER + dump({"apiVersion": 1, "groups": [group]})


def dump(document: Any) -> str:
    """Return readable YAML: keys in the order of the document, queries of several lines in blocks."""
    return yaml.dump(document, Dumper=_Readable, sort_keys=False, width=200, allow_unicode=True)


def _recorded(recording: Recording) -> dict[str, str]:
    return {"record": recording.record, "expr": recording.expr}


def _alert(alert: Alert) -> dict[str, Any]:
    kept = {} if alert.keep == "0s" else {"keep_firing_for": alert.keep}
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.wait,
        **kept,
        "labels": {"severity": alert.severity},
        "annotations": _annotations(alert, _IN_PROMETHEUS),
    }


def _grafana_alert(alert: Alert) -> dict[str, Any]:
    return {
        "uid": f"loopguard-{alert.page}",
        "title": alert.name,
        "condition": "B",
        "for": alert.wait,
        # In camel case, unlike the other keys; any other key is ignored. Grafana 12 knows it.
        "keepFiringFor": alert.keep,
        # The queries return a value only if the alert should fire.
        "noDataState": "OK",
        "execErrState": "Error",
        "labels": {"severity": alert.severity},
        "annotations": {**_annotations(alert, _IN_GRAFANA), **_view_panel(alert)},
        # The sum drops the metric's name: Grafana would make it a label of the alert.
        "data": [_query(f"sum without () (\n  {alert.expr}\n)"), _above_zero()],
    }


def _view_panel(alert: Alert) -> dict[str, str]:
    """Return the annotations from which Grafana makes the links to a dashboard and its panel."""
    return {"__dashboardUid__": alert.board, "__panelId__": str(panel_id(alert.panel))}


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


_TRIPS = in_range(TOOL_TRIPS + "{job='%s'}", "10m")
_WORST = f"topk(1, sum by (gen_ai_tool_name, loopguard_mode) ({_TRIPS}) > 0)"
_SHARING = f"sort_desc({SHARED_TOOL}{{{names.TOOL}='%s'}})"
_TOOK = f"topk(1, {TURNS_BEYOND}{{job='%s'}} > 0)"
_OF_JOB = f"{TURNS_NOT_STOPPED}{{job='%s'}}"


def _asked(query: str, shown: str) -> str:
    """Return a template that asks Prometheus with the alert's service in place of ``%s``, and shows each result."""
    return f'{{{{ range printf "{query}" $labels.job | query }}}}{shown}{{{{ end }}}}'


_IN_PROMETHEUS = {
    "value": "$value",
    "worst": _asked(_WORST, ", mostly {{ .Labels.gen_ai_tool_name }} ({{ .Labels.loopguard_mode }})"),
    "took": _asked(
        _TOOK, f", mostly {{{{ .Labels.{ACCOUNT} }}}}{{{{ with .Labels.{names.AGENT} }}}} of {{{{ . }}}}{{{{ end }}}}"
    ),
    "not_stopped": _asked(_OF_JOB, '{{ .Value | printf "%.0f" }}'),
    "services": f'{{{{ range $i, $service := printf "{_SHARING}" $labels.{names.TOOL} | query }}}}'
    "{{ if $i }}, {{ else }}: {{ end }}{{ $service.Labels.job }}{{ end }}",
}
# Grafana's templates cannot ask: the linked dashboard shows tool and mode.
_IN_GRAFANA = {
    "value": "$values.A.Value",
    "worst": "",
    "took": "",
    "not_stopped": "the dashboard shows how many",
    "services": "",
}


def _annotations(alert: Alert, templates: dict[str, str]) -> dict[str, str]:
    number = "humanizePercentage" if alert.number == "percentage" else f'printf "{alert.number}"'

    def fill(text: str) -> str:
        """Replace the ``{placeholders}`` by templates of the rule language."""
        return re.sub(r"\{(\w+)\}", lambda match: filled[match[1]] if match[1] in filled else _label(match[1]), text)

    filled = {**templates, "value": f"{{{{ {templates['value']} | {number} }}}}"}
    service = (
        "?var-job={{ $labels.job | urlquery }}" if "{job}" in alert.summary and alert.board == OVERVIEW_UID else ""
    )
    return {
        "summary": fill(alert.summary),
        "description": fill(alert.description),
        "dashboard_url": f"{GRAFANA}/d/{alert.board}{service}",
        "runbook_url": alert.runbook,
    }


def _label(name: str) -> str:
    # Labels of ours have their OpenTelemetry names; job and instance are Prometheus's labels.
    return f"{{{{ $labels.{_LABELS.get(name, name)} }}}}"


_LABELS = {"site": names.SITE, "tool": names.TOOL, "error": names.ERROR_TYPE, "reason": names.WATCH_REASON}


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _text)
