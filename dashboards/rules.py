"""Prometheus's rules file from ``alerts``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from dashboards.alerts import ALERTS, RECORDINGS, Alert

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = "# Made by `make dashboards` from dashboards/alerts.py; change it there.\n"


def prometheus_rules() -> str:
    """The rules file as text."""
    recorded = [{"record": each.record, "expr": each.expr} for each in RECORDINGS]
    groups = [
        {"name": "loopguard.recorded", "rules": recorded},
        {"name": "loopguard.alerts", "rules": [_alert(each) for each in ALERTS]},
    ]
    return HEADER + dump({"groups": groups})


def fill(text: str, label: Callable[[str], str], value: str) -> str:
    """A text of an alert with its ``{placeholders}`` in a rule language's own words."""
    return re.sub(r"\{(\w+)\}", lambda match: value if match[1] == "value" else label(match[1]), text)


def dump(document: Any) -> str:
    """YAML that a person reads: in our order, long queries in blocks."""
    return yaml.dump(document, Dumper=_Readable, sort_keys=False, width=200, allow_unicode=True)


def _alert(alert: Alert) -> dict[str, Any]:
    number = "humanizePercentage" if alert.number == "percentage" else f'printf "{alert.number}"'
    value = f"{{{{ $value | {number} }}}}"
    texts = {
        "summary": fill(alert.summary, _label, value),
        "description": fill(alert.description, _label, value),
    }
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.wait,
        "labels": {"severity": alert.severity},
        "annotations": texts | {"runbook_url": alert.runbook},
    }


def _label(name: str) -> str:
    # A site is a label of ours, named as in OpenTelemetry; job and instance are Prometheus's own.
    return f"{{{{ $labels.{'loopguard_site' if name == 'site' else name} }}}}"


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _text)
