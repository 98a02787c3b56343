"""Write docs/performance.md. What is above the mark is written by hand; the rest comes from a run."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import HEAD, Section, cells
from benchmarks.markdown import table

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
MARK = "<!-- The rest is written by python -m benchmarks -->\n"
GOALS = "The goals"
OURS = ("opentelemetry-sdk", "wrapt", "orjson")


def machine(*, quick: bool) -> str:
    """Say when and where a run begins. Frameworks and their versions are named where they are measured."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    compiler = platform.python_compiler()
    return (
        f"Measured on {datetime.now(timezone.utc):%Y-%m-%d} by `python -m benchmarks{' --quick' if quick else ''}`"
        f"{', a short run with few rounds' if quick else ''}: {os.cpu_count()} processors ({processor()}), load before "
        f"{load} (of the last 1, 5 and 15 minutes), {platform.system()} {platform.machine()}, "
        f"{platform.python_implementation()} {platform.python_version()} ({compiler}), otel-loopguard "
        f"{version('otel-loopguard')}, {', '.join(f'{name} {version(name)}' for name in OURS)}."
    )


def processor() -> str:
    """The model of the processor, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or "model unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "model unknown"


def page(sections: Sequence[Section], about: str) -> str:
    """Return the page: the part that is written by hand, and these figures."""
    by_hand, mark, _ = PAGE.read_text("utf-8").partition(MARK)
    parts = [by_hand + mark.rstrip(), about, *map(written, (goals(sections), *sections))]
    return "\n\n".join(parts) + "\n"


def goals(sections: Sequence[Section]) -> Section:
    """All rows that have a goal, gathered in front."""
    rows = [replace(row, what=f"{one.title}: {row.what}") for one in sections for row in one.rows if row.goal]
    return Section(GOALS, "Every row below that has a goal.", rows)


def written(section: Section) -> str:
    """Return a section as Markdown, without the columns that it leaves empty."""
    lines = [HEAD, *map(cells, section.rows)]
    kept = [column for column in range(len(HEAD)) if any(line[column] for line in lines[1:])]
    head, *rows = [[line[column] for column in kept] for line in lines]
    return f"## {section.title}\n\n{section.about}\n\n{table(head, rows)}"
