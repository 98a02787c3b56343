"""Programs that are started as users start them: ``opentelemetry-instrument python app.py``."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "langgraph_agent.py"
NOTHING_EXPORTED = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without what the machine's owner set, and without other instrumentations that are installed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "COV_", "PYTEST_"))}
    others = {point.name for point in entry_points(group="opentelemetry_instrumentor")} - {"loopguard"}
    return {**kept, "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": ",".join(sorted(others)), **(more or {})}


def run_code(code: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a program that is given as text to its end."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=clean_environment(),
    )


def start(
    script: Path, *arguments: str, environment: Mapping[str, str] | None = None, flags: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program under ``opentelemetry-instrument`` to its end."""
    command = [str(Path(sys.executable).with_name("opentelemetry-instrument")), *flags, sys.executable, str(script)]
    return subprocess.run(
        [*command, *arguments],
        env=clean_environment(environment if environment is not None else NOTHING_EXPORTED),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
