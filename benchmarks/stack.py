"""Measure the section "Load" of docs/stack.md: series, scrapes, rules, memory, and the time of every panel.

    python -m benchmarks.stack                        # 200 instances of 10 services, 4 minutes
    python -m benchmarks.stack --instances 20 --minutes 2

The collector, Prometheus, its rules and its intervals are those that are shipped. Each instance has the package's own
instruments, 12 tools, 2 agents and a loop a minute, and exports each minute. The hours before are written into
Prometheus's store: the series that panels read, with as many labels as in the minutes that were measured. It needs the
collector (``deploy/collector/build``), prometheus and promtool.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from dashboards.recordings import RECORDINGS, USUAL
from otel_loopguard import semconv
from otel_loopguard.engine.ledger import Ledger
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Action, First, Trip
from otel_loopguard.telemetry.meters import Meters, announced_trips
from tests.stack.harness.collector import Collector
from tests.stack.harness.programs import ROOT, need
from tests.stack.harness.prometheus import HOME, Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

TOOLS = [f"tool_{number}" for number in range(12)]
AGENTS = ["planner", "writer"]
MODES = [str(mode) for mode in Mode]
GOAL_SECONDS = 1.0
STEP = 15
RANGES = {"30m": 1800, "3h": 10800}


class Instance:
    """One process of a service, as the collector sees it."""

    def __init__(self, collector: Collector, service: str, number: int) -> None:
        resource = Resource({"service.name": service, "service.instance.id": f"{service}-{number}"})
        exporter = OTLPMetricExporter(f"http://127.0.0.1:{collector.http}/v1/metrics")
        self._reader = PeriodicExportingMetricReader(exporter, export_interval_millis=float("inf"))
        self.provider = MeterProvider([self._reader], resource)
        self._meters = Meters(self.provider.get_meter(semconv.SCOPE), lambda: 1)
        self._meters.announce(announced_trips(Policy()))
        self._random = random.Random(number)

    def minute(self) -> None:
        """The calls of a minute, of which some loop, and the export."""
        context = Context()
        for tool in TOOLS:
            self._meters.tool_call(tool, self._random.choice(["executed", "executed", "blocked", "nudged"]), context)
            self._meters.check(5e-5, context)
        mode, tool = self._random.choice(MODES), self._random.choice(TOOLS)
        action = self._random.choice([Action.NUDGE, Action.BLOCK, Action.ABORT])
        trip = Trip(mode, tool, 3, 3, Action.BLOCK, action)
        self._meters.trip("a turn that goes on", trip, tool, First.ACTION, context)
        self._meters.turn("another turn", 12)
        ledger, agent = Ledger(6, 12, int(self._random.lognormvariate(10, 1.5)), cost=0.1), self._random.choice(AGENTS)
        self._meters.turn_spent(ledger, agent, "USD")
        self._meters.genai.agent_ran(30, agent, None, context, calls=12, requests=6)
        self._reader.collect()


class Unhurried(Prometheus):
    """The Prometheus of the tests, with the intervals and rules that are shipped."""

    def __init__(self, folder: Path, collector: Collector) -> None:
        super().__init__(folder, collector)
        self.data = folder / "prometheus-data"
        path, shipped = folder / "prometheus.yml", yaml.safe_load((HOME / "prometheus.yml").read_text())
        config = {**yaml.safe_load(path.read_text()), "global": shipped["global"]}
        path.write_text(yaml.safe_dump({**config, "rule_files": [str(HOME / "rules.yml")]}))

    def of_itself(self, metric: str) -> float:
        """The value of a metric of Prometheus itself."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as response:
            found = re.search(rf"^{metric} (\S+)$", response.read().decode(), re.MULTILINE)
        assert found
        return float(found[1])


def main() -> int:
    """Run it; the exit status is 1 if a panel takes longer than a second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--services", type=int, default=10)
    parser.add_argument("--minutes", type=int, default=4)
    parser.add_argument("--dashboards", type=Path, default=ROOT / "dashboards/json")
    options = parser.parse_args()
    with ExitStack() as stopping:
        folder = Path(stopping.enter_context(tempfile.TemporaryDirectory(prefix="bench-stack-")))
        collector = Collector(folder, LOOPGUARD_TRIPS_FLUSH_INTERVAL="15s")
        prometheus = Unhurried(folder, collector)
        for program in (collector, prometheus):
            stopping.callback(program.stop)
            program.start()
            program.wait_ready()
        began = time.time()
        before = prometheus.of_itself("process_cpu_seconds_total")
        _load(collector, options)
        spent = prometheus.of_itself("process_cpu_seconds_total") - before
        print(f"processor time of Prometheus for each {STEP} s: {spent * STEP / (time.time() - began):.2f} s")
        _report_load(collector, prometheus, options.instances)
        panels = list(_panels(options.dashboards))
        history = _history(prometheus, panels, began)
        prometheus.stop()
        (folder / "history.txt").write_text(history)
        command = ("tsdb", "create-blocks-from", "openmetrics", folder / "history.txt", prometheus.data)
        subprocess.run([need("promtool"), *command], check=True, capture_output=True, timeout=600)
        prometheus.start()
        prometheus.wait_ready()
        time.sleep(STEP * 2)
        return _report_panels(prometheus, panels)


def _load(collector: Collector, options: argparse.Namespace) -> None:
    """Run all instances, each of which exports once a minute."""
    instances = [
        Instance(collector, f"service-{number % options.services}", number) for number in range(options.instances)
    ]
    start = time.monotonic()
    for minute in range(options.minutes):
        for number, each in enumerate(instances):
            due = start + 60 * (minute + number / len(instances))
            time.sleep(max(0.0, due - time.monotonic()))
            each.minute()
    for each in instances:
        each.provider.shutdown()


def _report_load(collector: Collector, prometheus: Unhurried, instances: int) -> None:
    text = collector.exposition()
    series = [line for line in text.splitlines() if not line.startswith("#") and 'instance="service-' in line]
    print(
        f"series: {len(series) / instances:.0f} an instance, {len(series)} in total; scrape of {len(text) / 1e6:.1f} MB"
    )
    for name, expression in {
        "scrape, seconds": 'max_over_time(scrape_duration_seconds{job="loopguard"}[2m])',
        "collector, MB": "otelcol_process_memory_rss / 1e6",
    }.items():
        print(f"{name}: {prometheus.value(expression):.2f}")
    print(f"Prometheus, MB: {prometheus.of_itself('process_resident_memory_bytes') / 1e6:.0f}")
    recorded = sum(prometheus.value(f"count({each.record})") or 0 for each in (*RECORDINGS, *USUAL))
    print(f"recorded series: {recorded:.0f}")
    for group in prometheus.get("rules")["groups"]:
        rules = sorted(group["rules"], key=lambda rule: -rule["evaluationTime"])[:4]
        slowest = ", ".join(f"{rule['name']} {rule['evaluationTime'] * 1000:.0f} ms" for rule in rules)
        print(f"rule group {group['name']}: {group['evaluationTime']:.3f} s; slowest: {slowest}", flush=True)


def _panels(folder: Path) -> Iterator[tuple[str, str, bool]]:
    """The title, the query and whether it is an instant one, of all panels that ask Prometheus."""
    for path in sorted(folder.glob("*.json")):
        for panel in _flat(json.loads(path.read_text())["panels"]):
            for target in panel.get("targets", []):
                if target.get("expr"):
                    yield f"{path.stem}: {panel['title']}", target["expr"], bool(target.get("instant"))


def _flat(panels: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for panel in panels:
        yield panel
        yield from _flat(panel.get("panels", []))


def _history(prometheus: Prometheus, panels: list[tuple[str, str, bool]], end: float) -> str:
    """Three hours of the series that panels read, as OpenMetrics."""
    known = set(prometheus.get("label/__name__/values"))
    names = sorted({name for _, query, _ in panels for name in re.findall(r"[a-z_:0-9]+", query)} & known)
    lines = []
    for name in names:
        lines.append(f"# TYPE {name} unknown")
        for series in prometheus.get("series", **{"match[]": name}):
            labels = ",".join(f'{key}="{value}"' for key, value in series.items() if key != "__name__")
            lines += [
                f"{name}{{{labels}}} {moment % 7} {moment}" for moment in range(int(end) - RANGES["3h"], int(end), STEP)
            ]
    return "\n".join([*lines, "# EOF\n"])


def _report_panels(prometheus: Prometheus, panels: list[tuple[str, str, bool]]) -> int:
    slow = 0
    for name, seconds in RANGES.items():
        queries = [(title, _filled(query, seconds), instant) for title, query, instant in panels]
        times = sorted(
            ((_ask(prometheus, query, seconds, instant), title) for title, query, instant in queries), reverse=True
        )
        began = time.perf_counter()
        with ThreadPoolExecutor(6) as browser:  # as many requests as a browser sends at once
            asked = [browser.submit(_ask, prometheus, query, seconds, instant) for _, query, instant in queries]
            together = [each.result() for each in asked]
        print(
            f"{name}: {len(queries)} queries, each {sum(one for one, _ in times) / len(times):.3f} s, all together "
            f"{time.perf_counter() - began:.2f} s, the slowest of these {max(together):.2f} s; one by one:"
        )
        for one, title in times[:6]:
            print(f"  {one:.3f} s  {title}")
        slow += sum(one > GOAL_SECONDS for one, _ in times)
    return int(slow > 0)


def _filled(query: str, seconds: int) -> str:
    """The query as Grafana sends it, with every service, mode and tool, at the width of a panel of a whole row."""
    for variable in ("job", "mode", "tool"):
        query = query.replace(f"${variable}", ".*")
    return (
        query.replace("$__range", f"{seconds}s").replace("$__interval", f"{STEP}s").replace("$__rate_interval", "60s")
    )


def _ask(prometheus: Prometheus, query: str, seconds: int, instant: bool) -> float:
    """The time until the answer is there."""
    now = time.time()
    began = time.perf_counter()
    if instant:
        prometheus.get("query", query=query, time=str(now))
    else:
        prometheus.get("query_range", query=query, start=str(now - seconds), end=str(now), step=str(STEP))
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
