"""The data of the pictures: the services run for some minutes, beside the shipped collector, Prometheus and rules."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.stack import Unhurried
from dashboards.pictures.services import SERVICES
from tests.stack.harness.collector import Collector
from tests.stack.harness.programs import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

PRICES: Final = """
[cost_per_million_tokens]
"gpt-5*" = { input = 1.25, cached_input = 0.125, output = 10.0 }
"gpt-5-mini*" = { input = 0.25, cached_input = 0.025, output = 2.0 }
"""
_LAST_EXPORTS: Final = 20
_PATIENCE: Final = 60
_ENDED: Final = "ended"


def run(folder: Path, minutes: float) -> None:
    """Run all services for some minutes. Prometheus's data stay in the folder."""
    folder.mkdir(parents=True)
    (folder / "prices.toml").write_text(PRICES, encoding="utf-8")
    collector = Collector(folder, LOOPGUARD_TRIPS_FLUSH_INTERVAL="15s")
    with ExitStack() as stopping:
        for program in (collector, Unhurried(folder, collector)):
            stopping.callback(program.stop)
            program.start()
            program.wait_ready()
        environment = {
            **os.environ,
            **collector.otlp_environment(),
            "PYTHONPATH": str(ROOT),
            "OTEL_METRIC_EXPORT_INTERVAL": "10000",
            "OTEL_PYTHON_LOOPGUARD_CONFIG": str(folder / "prices.toml"),
        }
        programs = [_start(service.name, minutes * 60, {**environment, "OTEL_SERVICE_NAME": service.name,
                                                        **service.settings})
                    for service in SERVICES]  # fmt: skip
        time.sleep(minutes * 60)
        # The services still run: this is what one who is on call sees.
        (folder / _ENDED).write_text(str(time.time()), encoding="utf-8")
        for program in programs:
            program.wait(_PATIENCE)


def ended(folder: Path) -> float:
    """Return the time of the end of a run."""
    return float((folder / _ENDED).read_text(encoding="utf-8"))


def _start(name: str, seconds: float, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    instrument = str(Path(sys.executable).with_name("opentelemetry-instrument"))
    command = [instrument, sys.executable, "-m", "dashboards.pictures.agent", name, str(seconds + _LAST_EXPORTS)]
    return subprocess.Popen(command, env=environment)
