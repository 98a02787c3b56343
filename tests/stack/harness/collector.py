"""The collector, run with the repository's own configuration."""

from __future__ import annotations

import json
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.docs.blocks import blocks

from .process import Program, free_ports
from .programs import ROOT, need

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = ROOT / "collector-config.yaml"
CONFIG_TEMPO = ROOT / "deploy" / "collector-config-tempo.yaml"
CONFIG_KAFKA = ROOT / "deploy" / "collector-config-kafka.yaml"
CONFIG_WATCH = ROOT / "deploy" / "collector-config-watch.yaml"
CONFIG_BALANCER = ROOT / "deploy" / "collector-config-balancer.yaml"

# Shorter than in life, so that tests need not wait; what they are compared with is in the configuration.
# The flush interval is twice Prometheus's: an exemplar is shown from one flush to the next.
QUICK = {"LOOPGUARD_TRIPS_FLUSH_INTERVAL": "2s", "LOOPGUARD_DECISION_WAIT_AFTER_ROOT": "2s"}


class Collector(Program):
    """A collector on free ports; ``settings`` are its environment variables."""

    config = CONFIG
    adding: tuple[Path | str, ...] = ()
    """The configurations that are added to it: files, or settings as `yaml:a::b: value`."""

    def __init__(self, folder: Path, *, tempo: bool = False, **settings: str) -> None:
        self.grpc, self.http, self.health, self.metrics, self.own_metrics = free_ports(5)
        self.state = folder / "state"
        configs = [self.config, *self.adding, *[CONFIG_TEMPO] * tempo]
        command = [need("collector"), *(f"--config={config}" for config in configs)]
        environment = self._places() | QUICK | settings
        super().__init__(command, folder / "collector.log", environment, f"http://127.0.0.1:{self.health}/")

    def otlp_environment(self, protocol: str = "grpc") -> dict[str, str]:
        """The environment variables with which an application exports to this collector."""
        port = self.grpc if protocol == "grpc" else self.http
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_EXPORTER_OTLP_INSECURE": "true",
        }

    def exposition(self) -> str:
        """The metrics that Prometheus would read now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=10) as response:
            return str(response.read().decode())

    def own_metric(self, name: str) -> float:
        """The sum of one of the collector's own metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.own_metrics}/metrics", timeout=10) as response:
            lines = response.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    def file_text(self) -> str:
        """Everything in the file exporter's files."""
        return "".join(path.read_text() for path in sorted(self.state.glob("traces/*.jsonl")))

    def file_spans(self, service: str | None = None) -> list[dict[str, Any]]:
        """The spans of one or all services in the file exporter's files; half a line, left by a kill, is left out."""
        spans: list[dict[str, Any]] = []
        for line in self.file_text().splitlines():
            with suppress(json.JSONDecodeError):
                spans.extend(spans_of(json.loads(line), service))
        return spans

    def _places(self) -> dict[str, str]:
        return {
            "LOOPGUARD_OTLP_GRPC_ENDPOINT": f"127.0.0.1:{self.grpc}",
            "LOOPGUARD_OTLP_HTTP_ENDPOINT": f"127.0.0.1:{self.http}",
            "LOOPGUARD_HEALTH_ENDPOINT": f"127.0.0.1:{self.health}",
            "LOOPGUARD_PROMETHEUS_ENDPOINT": f"127.0.0.1:{self.metrics}",
            "LOOPGUARD_COLLECTOR_METRICS_PORT": str(self.own_metrics),
            "LOOPGUARD_STATE_DIR": str(self.state),
        }


class WatchCollector(Collector):
    """A collector that also sends all spans to a watcher."""

    adding: tuple[Path | str, ...] = (CONFIG_WATCH,)

    def __init__(self, folder: Path, watcher: str, **settings: str) -> None:
        super().__init__(folder, tempo=False, **({"LOOPGUARD_WATCH_ENDPOINT": watcher} | settings))


class Balancer(Collector):
    """A collector that spreads what it gets over two others, and has neither a file nor metrics of applications."""

    config = CONFIG_BALANCER

    def __init__(self, folder: Path, first: Collector, second: Collector, **settings: str) -> None:
        endpoints = {
            "LOOPGUARD_FIRST_COLLECTOR_ENDPOINT": f"127.0.0.1:{first.grpc}",
            "LOOPGUARD_SECOND_COLLECTOR_ENDPOINT": f"127.0.0.1:{second.grpc}",
        }
        super().__init__(folder, tempo=False, **(endpoints | settings))


def page_configs() -> list[str]:
    """The configurations that the page about Kafka adds: to CONFIG a producer, and to CONFIG_KAFKA a login."""
    found = blocks("how-to/kafka", "text")  # type: ignore[no-untyped-call]  # shared with tests without hints
    return [block["text"] for block in found if block["file"]]


def spans_of(export: dict[str, Any], service: str | None) -> Iterator[dict[str, Any]]:
    """The spans of one OTLP JSON export request."""
    for resource in export.get("resourceSpans", []):
        if service and attributes_of(resource["resource"]).get("service.name") != service:
            continue
        for scope in resource.get("scopeSpans", []):
            yield from scope.get("spans", [])


def attributes_of(item: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an OTLP JSON span, event or resource; integers as OTLP writes them: as strings."""
    return {each["key"]: next(iter(each["value"].values()), None) for each in item.get("attributes", [])}


def tripped(span: dict[str, Any]) -> bool:
    """Return True if a span holds a trip event."""
    return any(event["name"] == "tool_loop_detected" for event in span.get("events", []))
