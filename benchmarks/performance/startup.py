"""Measure the start of a process with us and without: python -m benchmarks.performance.startup.

Two environments with the same packages, of which one has ours too, are made by uv in .envs/.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.harness import Row, Section, interleaved, main
from tests.environments import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TITLE = "Start of a process"
ABOUT = "Processor time of the whole process, with exporters off. The packages are the same but for otel_loopguard."
REQUIREMENTS = ("opentelemetry-distro", "opentelemetry-exporter-otlp")
OFF = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}


def spent(*command: str | Path) -> float:
    """Milliseconds of processor time of a command."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | OFF
    process = subprocess.Popen(
        list(map(str, command)), env=environ, cwd=ROOT / "docs", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return 1_000 * (usage.ru_utime + usage.ru_stime)


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure both."""
    try:
        with_us = environment("bench-start-with", REQUIREMENTS).parent
        without = environment("bench-start-without", REQUIREMENTS, own=False).parent
    except (subprocess.CalledProcessError, OSError) as error:
        yield Section(TITLE, ABOUT, [Row(TITLE, note=f"not measured, an environment could not be made: {error}")])
        return
    launch = "opentelemetry-instrument"
    commands = {
        f"`{launch} python -c pass`, without otel_loopguard": (without / launch, without / "python", "-c", "pass"),
        "the same with otel_loopguard": (with_us / launch, with_us / "python", "-c", "pass"),
        "`python -c pass`": (with_us / "python", "-c", "pass"),
        '`python -c "import otel_loopguard"`': (with_us / "python", "-c", "import otel_loopguard"),
    }
    found = interleaved({name: partial(spent, *command) for name, command in commands.items()}, 5 if quick else 15)
    alone, guarded, python, imported = found.values()
    rows = [Row(name, values, "ms") for name, values in found.items()]
    rows[1:2] = [rows[1], added("added by otel_loopguard", guarded, alone)]
    rows.append(added("added by the import", imported, python))
    yield Section(TITLE, ABOUT, rows)


def added(name: str, more: list[float], less: list[float]) -> Row:
    """A row of the differences."""
    return Row(name, [a - b for a, b in zip(more, less, strict=True)], "ms")


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
