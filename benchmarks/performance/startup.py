"""Measure the start of a process, and what each instrumentation adds.

Run it by python -m benchmarks.performance.startup [--quick].

The environments have the same packages but for the instrumentation. uv makes them in .envs/bench-start-NAME, as
``environment`` says: ``uv venv``, then ``uv pip install`` of ``REQUIREMENTS`` and what ``ADDED`` has for the name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.harness import Row, Section, compared, interleaved, main, times
from tests.environments import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TITLE = "Start of a process"
ABOUT = (
    "The whole process, with exporters off. LangChain and the client of OpenAI are installed in all environments, so "
    "that each instrumentation is loaded."
)
PROGRAMS = {
    TITLE: ("pass", f"{ABOUT} The program has no agent."),
    "Start of an agent": (
        "import langchain_core.tools.base, openai",
        "The same environments. What an instrumentation loads at its first use is in here.",
    ),
}
REQUIREMENTS = ("opentelemetry-distro", "opentelemetry-exporter-otlp", "langchain", "openai")
ADDED = {
    "OpenInference": ("openinference-instrumentation-langchain", "openinference-instrumentation-openai"),
    "OpenLLMetry": ("opentelemetry-instrumentation-langchain", "opentelemetry-instrumentation-openai"),
}
OFF = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
LAUNCH = "opentelemetry-instrument"
PLAIN, OURS = "without any", "with otel_loopguard"
GOAL = times(1.15)


def spent(*command: str | Path, **settings: str) -> float:
    """Milliseconds of processor time of a command."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | OFF | settings
    process = subprocess.Popen(
        list(map(str, command)), env=environ, cwd=ROOT / "docs", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return 1_000 * (usage.ru_utime + usage.ru_stime)


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure all environments in turn, for each program."""
    try:
        folders = {PLAIN: folder("plain"), OURS: folder("own", own=True)}
        folders |= {f"with {name}": folder(name.lower(), *added) for name, added in ADDED.items()}
    except (subprocess.CalledProcessError, OSError) as error:
        yield Section(TITLE, ABOUT, [Row(TITLE, note=f"not measured, an environment could not be made: {error}")])
        return
    rounds = 5 if quick else 15
    for title, (program, about) in PROGRAMS.items():
        cases = {name: partial(spent, at / LAUNCH, at / "python", "-c", program) for name, at in folders.items()}
        cases[f"{OURS} and a policy in the environment"] = partial(cases[OURS], OTEL_PYTHON_LOOPGUARD_ACTION="observe")
        rows = compared(interleaved(cases, rounds), PLAIN, PLAIN, {OURS: GOAL} if title == TITLE else {})
        yield in_ms(title, f'`{LAUNCH} python -c "{program}"`. {about}', rows)
    python = folders[OURS] / "python"
    cases = {f'`python -c "{one}"`': partial(spent, python, "-c", one) for one in ("pass", "import otel_loopguard")}
    found = interleaved(cases, rounds)
    alone, imported = found.values()
    added = [one - other for one, other in zip(imported, alone, strict=True)]
    rows = [*(Row(name, values) for name, values in found.items()), Row("added by the import", added)]
    yield in_ms("Import of the package", "The whole process.", rows)


def in_ms(title: str, about: str, rows: list[Row]) -> Section:
    """Return a section whose figures are milliseconds."""
    return Section(title, about, [replace(row, unit="ms") for row in rows])


def folder(name: str, *added: str, own: bool = False) -> Path:
    """Make an environment, unless it is there; return the folder of its programs."""
    return environment(f"bench-start-{name}", (*REQUIREMENTS, *added), own=own).parent


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
