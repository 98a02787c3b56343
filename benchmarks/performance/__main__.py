"""Measure everything and write docs/performance.md: python -m benchmarks.performance [--quick] [--output FILE].

What is above the mark on the page is written by hand. Each part is measured by a program of its own, so that none warms
another's caches; ``python -m benchmarks.performance.core`` prints the tables of one. A part that fails is a line on the
page.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import HEAD, Row, Section, cells, load, progress
from benchmarks.markdown import table

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
MARK = "<!-- The rest is written by python -m benchmarks.performance -->\n"
GOALS = "The goals"
PARTS = ("core", "call", "requests", "frameworks", "startup", "hooks", "replay")
OURS = ("opentelemetry-sdk", "wrapt", "orjson")


def measured(name: str, *, quick: bool) -> tuple[list[Section], str]:
    """Run a part; return its sections, or the reason why there are none."""
    module = f"benchmarks.performance.{name}"
    command = [sys.executable, "-W", "ignore", "-m", module, "--json", *(["--quick"] if quick else [])]
    environ = {**os.environ, "OTEL_PYTHON_LOOPGUARD_SUMMARY": "off"}
    started = time.monotonic()
    progress(f"=== {name}")
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environ, check=False)
    progress(f"    {time.monotonic() - started:.0f} s")
    if ended.returncode:
        return [], f"`python -m {module}` failed with exit status {ended.returncode}"
    return load(ended.stdout.splitlines()[-1]), ""


def machine(*, quick: bool) -> str:
    """Say when and where a run begins. Frameworks and their versions are named where they are measured."""
    average = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    python = f"{platform.python_implementation()} {platform.python_version()} ({platform.python_compiler()})"
    versions = ", ".join(f"{name} {version(name)}" for name in OURS)
    return (
        f"Measured on {datetime.now(timezone.utc):%Y-%m-%d} by `python -m benchmarks.performance"
        f"{' --quick`, a short run with few rounds' if quick else '`'}: {os.cpu_count()} processors ({processor()}), "
        f"load before {average} (of the last 1, 5 and 15 minutes), {platform.system()} {platform.machine()}, {python}, "
        f"otel-loopguard {version('otel-loopguard')}, {versions}."
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
    return "\n\n".join([by_hand + mark.rstrip(), about, goals(sections), *map(written, sections)]) + "\n"


def goals(sections: Sequence[Section]) -> str:
    """The conclusion: how many goals are met, and the rows of those that are not."""
    aims = [row for one in sections for row in one.rows if row.goal]
    parts = [f"## {GOALS}", f"{sum(row.met is True for row in aims)} of {len(aims)} are met."]
    for told, met in (("Not met:", False), ("Not measured:", None)):
        found = [(one.title, [row for row in one.rows if row.goal and row.met is met]) for one in sections]
        lines = [f"- {title}: {'; '.join(map(_shown, rows))}." for title, rows in found if rows]
        parts += [told, "\n".join(lines)] * bool(lines)
    return "\n\n".join(parts)


def _shown(row: Row) -> str:
    return row.what + ("" if row.certain else " (uncertain)")


def written(section: Section) -> str:
    """Return a section as Markdown. What is the same in all rows of a column is in its head, and no column is empty.

    Quartiles are beside the ratio, if there is one. The least figures are for the terminal.
    """
    columns = dict(zip(HEAD, zip(*map(cells, section.rows), strict=True), strict=True))
    units, bases = set(filter(None, columns["unit"])), set()
    for cell in filter(None, columns["ratio (quartiles)"]):
        bases.add(cell.partition(" x ")[2])
    answers = zip(columns["goal"], columns.pop("met"), strict=True)
    columns["goal"] = tuple(f"{goal}: {met}" if goal else "" for goal, met in answers)
    heads = {name: name for name, found in columns.items() if any(found)}
    heads.pop("least", None)
    medians = zip(columns["median (quartiles)"], columns["ratio (quartiles)"], strict=True)
    columns["median (quartiles)"] = tuple(median.partition(" ")[0] if ratio else median for median, ratio in medians)
    if len(units) == 1:
        heads.pop("unit")
        heads["median (quartiles)"] = f"median, {units.pop()} (quartiles)"
    if len(bases) == 1:
        base = bases.pop()
        heads["ratio (quartiles)"] = f"x {base} (quartiles)"
        columns["ratio (quartiles)"] = tuple(cell.removesuffix(f" x {base}") for cell in columns["ratio (quartiles)"])
    rows = [list(row) for row in zip(*(columns[name] for name in heads), strict=True)]
    return f"## {section.title}\n\n{section.about}\n\n{table(list(heads.values()), rows)}"


def main() -> int:
    """Measure, and write. The exit status is 1 if a part failed; a goal that is missed is on the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.performance", description="Measure time and memory.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds; the page says so")
    parser.add_argument("--output", type=Path, default=PAGE, metavar="FILE", help="the page to write")
    options = parser.parse_args()
    about = machine(quick=options.quick)
    sections: list[Section] = []
    failed = []
    for name in PARTS:
        found, problem = measured(name, quick=options.quick)
        if problem:
            failed.append(problem)
            found = [Section(name, "Not measured.", [Row(name, note=problem)])]
        sections += found
    options.output.write_text(page(sections, about), "utf-8")
    if failed:
        progress("\n".join(failed))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
