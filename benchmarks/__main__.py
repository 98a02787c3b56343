"""Measure everything and write docs/performance.md: python -m benchmarks [--quick] [--only NAME] [--output FILE].

Each benchmark is a program of its own, so that none warms another's caches; one that fails is a line on the page.
``--only`` prints what it measures, and writes nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import performance_page
from benchmarks.harness import Row, Section, load, plain, progress

BENCHMARKS = (
    "bench_core",
    "bench_call",
    "bench_busy_thread",
    "bench_requests",
    "bench_frameworks",
    "bench_export",
    "bench_startup",
    "bench_replay",
)


def measured(name: str, *, quick: bool) -> tuple[list[Section], str]:
    """Run a benchmark; return its sections, or the reason why there are none."""
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{name}", "--json", *(["--quick"] if quick else [])]
    environ = {**os.environ, "OTEL_PYTHON_LOOPGUARD_SUMMARY": "off"}
    started = time.monotonic()
    progress(f"=== {name}")
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environ, check=False)
    progress(f"    {time.monotonic() - started:.0f} s")
    if ended.returncode:
        return [], f"`python -m benchmarks.{name}` failed with exit status {ended.returncode}"
    return load(ended.stdout.splitlines()[-1]), ""


def main() -> int:
    """Measure, and write. The exit status is 1 if a benchmark failed; a goal that is missed is on the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds; the page says so")
    parser.add_argument("--only", choices=BENCHMARKS, action="append", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--output", type=Path, default=performance_page.PAGE, metavar="FILE", help="the page to write")
    options = parser.parse_args()
    machine = performance_page.machine(quick=options.quick)
    sections: list[Section] = []
    failed = []
    for name in options.only or BENCHMARKS:
        found, problem = measured(name, quick=options.quick)
        if problem:
            failed.append(problem)
            found = [Section(name, "Not measured.", [Row(name, note=problem)])]
        sections += found
    if options.only:
        print("\n".join(map(plain, sections)))
    else:
        options.output.write_text(performance_page.page(sections, machine), "utf-8")
    if failed:
        progress("\n".join(failed))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
