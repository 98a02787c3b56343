"""Write every generated file of this directory. With ``--check``, list those that are not up to date.

Run as ``python -m dashboards.build [--check]``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.collector import collector
from dashboards.drilldown import drilldown
from dashboards.overview import overview
from dashboards.panels import panel_id
from dashboards.rules import grafana_rules, prometheus_rules

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.dashboard import Dashboard

HERE = Path(__file__).parent

COMPOSE_ADDRESSES = {
    "127.0.0.1:8888": "collector:8888",
    "127.0.0.1:8889": "collector:8889",
    "127.0.0.1:9093": "alertmanager:9093",
    "127.0.0.1:9095": "host.docker.internal:9095",
}


def generated() -> dict[str, str]:
    """Return the text of each generated file, by its path below this directory."""
    return {
        "json/collector.json": as_json(collector()),
        "json/drilldown.json": as_json(drilldown()),
        "json/overview.json": as_json(overview()),
        "prometheus/rules.yml": prometheus_rules(),
        "grafana/provisioning/alerting/loopguard.yaml": grafana_rules(),
        "compose/prometheus.yml": in_compose("prometheus/prometheus.yml"),
        "compose/alertmanager.yml": in_compose("alertmanager/alertmanager.yml"),
    }


def in_compose(path: str) -> str:
    """Return a configuration file with the addresses that the programs have in deploy/compose.yaml."""
    text = (HERE / path).read_text(encoding="utf-8")
    for address, name in COMPOSE_ADDRESSES.items():
        text = text.replace(address, name)
    return f"# Made by `make dashboards` from dashboards/{path}; change it there.\n{text}"


def stale() -> list[str]:
    """Return the paths of the generated files that are missing, or are not up to date."""
    return [path for path, text in generated().items() if not _same(HERE / path, text)]


def write() -> None:
    """Write all generated files."""
    for path, text in generated().items():
        target = HERE / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def as_json(board: Dashboard) -> str:
    """Return a dashboard as JSON in the classic schema, which Grafana 9.4 to 12 load."""
    document: dict[str, Any] = json.loads(json.dumps(board.build(), cls=JSONEncoder))
    for panel in document["panels"]:
        if panel["type"] == "row":
            panel["id"] = panel_id(f"row {panel['title']}")
        # The builder writes null for unset options. Grafana has defaults for missing options, but not for null.
        panel.update({key: {} for key in ("options",) if key in panel and panel[key] is None})
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def main(arguments: list[str]) -> int:
    """Run the command line. Return 1 if ``--check`` finds a stale file, 2 for wrong arguments, else 0."""
    if arguments == ["--check"]:
        for path in stale():
            print(f"dashboards/{path} is not up to date: run `make dashboards` and commit")
        return 1 if stale() else 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
