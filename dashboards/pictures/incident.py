"""The data of the pictures: the services run for some minutes, beside the shipped collector, Prometheus and rules."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.stack import Unhurried
from dashboards.pictures.services import SERVICES, Service
from tests.stack.harness.collector import Collector
from tests.stack.harness.programs import ROOT

PRICES: Final = """
currency = "USD"
[cost_per_million_tokens]
"gpt-5*" = { input = 1.25, cached_input = 0.125, output = 10.0 }
"gpt-5-mini*" = { input = 0.25, cached_input = 0.025, output = 2.0 }
"""
_AFTER: Final = 20
"""The services run for so many seconds longer: at the end, they still work or loop."""
_PATIENCE: Final = 60
_ENDED: Final = "ended"


def ran(folder: Path) -> bool:
    """Return True if the folder has a run."""
    return (folder / _ENDED).exists()


def ended(folder: Path) -> float:
    """Return the time of the end of a run."""
    return float((folder / _ENDED).read_text(encoding="utf-8"))


def run(folder: Path, minutes: float) -> None:
    """Run all services for some minutes. Prometheus's data stay in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prices.toml").write_text(PRICES, encoding="utf-8")
    collector = Collector(folder, LOOPGUARD_TRIPS_FLUSH_INTERVAL="15s")
    with ExitStack() as stopping:
        for program in (collector, Unhurried(folder, collector)):
            stopping.callback(program.stop)
            program.start()
            program.wait_ready()
        programs = [_start(service, folder, collector, minutes * 60 + _AFTER) for service in SERVICES]
        for each in programs:
            stopping.callback(each.terminate)
        time.sleep(minutes * 60)
        (folder / _ENDED).write_text(str(time.time()), encoding="utf-8")
        for each in programs:
            each.wait(_AFTER + _PATIENCE)


def _start(service: Service, folder: Path, collector: Collector, seconds: float) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        **collector.otlp_environment(),
        **service.settings,
        "PYTHONPATH": str(ROOT),
        "OTEL_SERVICE_NAME": service.name,
        "OTEL_METRIC_EXPORT_INTERVAL": "10000",
        "OTEL_PYTHON_LOOPGUARD_CONFIG": str(folder / "prices.toml"),
    }
    instrument = str(Path(sys.executable).with_name("opentelemetry-instrument"))
    command = [instrument, sys.executable, "-m", "dashboards.pictures.agent", service.name, str(seconds)]
    return subprocess.Popen(command, env=environment)  # noqa: S603 - a program of ours
