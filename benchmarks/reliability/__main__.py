"""Try to break the promises, and write docs/reliability.md: python -m benchmarks.reliability [PART ...] [--write].

The values are drawn from the seed, which is the time unless it is given. `--scale 0.01` takes a minute.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from benchmarks.markdown import table
from benchmarks.reliability.result import Row
from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from tests.environments import environment_of
from tests.scripted import installed

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
MARK = "<!-- The rest is written by python -m benchmarks.reliability --write -->\n"
PARTS = ("faults", "ways", "receivers", "canaries", "threads", "turns", "signals", "forks", "values")
LONGEST_PART = 1_800
"""Seconds after which a part counts as hung: a promise may be broken by a hang."""


class Part(NamedTuple):
    """One part of the campaign, measured."""

    title: str
    about: str
    command: str
    rows: list[Row]


def write(part: Part, titles: list[str]) -> None:
    """Replace the section of this part. The page has its sections in the order of the titles."""
    head, mark, rest = PAGE.read_text("utf-8").partition(MARK)
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", rest, re.MULTILINE | re.DOTALL))
    sections[part.title] = section(part)
    text = "\n".join(f"## {title}\n{sections[title].rstrip()}\n" for title in titles if title in sections)
    PAGE.write_text(f"{head}{mark}\n{text}", "utf-8")


def section(part: Part) -> str:
    """Return a section as Markdown, without its title."""
    rows = [[row.label, f"{row.tried:,}", f"{row.broken:,}", row.note] for row in part.rows]
    lines = [["attempt", "tried", "broken", "note"], *rows]
    head, *rows = lines if any(row.note for row in part.rows) else [line[:-1] for line in lines]
    sdk = version("opentelemetry-sdk")
    measured = f"`{part.command}`: Python {platform.python_version()}, opentelemetry-sdk {sdk}."
    return f"\n{part.about}\n\n{table(head, rows)}\n\n{measured}"


def main() -> int:
    """Run each part in a process of its own. The exit status is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}; all unless given")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="draw other values")
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the work; 1 takes half an hour")
    parser.add_argument("--write", action="store_true", help="write these parts to docs/reliability.md")
    parser.add_argument("--rows", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - set(PARTS))
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if options.rows:
        logging.getLogger("otel_loopguard").addHandler(logging.NullHandler())  # refusals are logged
        rows = os.fdopen(os.dup(sys.stdout.fileno()), "w")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a framework prints is no row
        for row in import_module(f"benchmarks.reliability.{options.parts[0]}").measure(options.seed, options.scale):
            print(json.dumps(row), file=rows, flush=True)
        return 0
    titles, broken = [import_module(f"benchmarks.reliability.{name}").TITLE for name in PARTS], False
    for name in options.parts or PARTS:
        part = _measured(name, options.seed, options.scale)
        broken = broken or any(row.broken for row in part.rows)
        if options.write:
            write(part, titles)
    return int(broken)


def _measured(name: str, seed: int, scale: float) -> Part:
    """Run one part, in the environment of each framework if it looks at frameworks."""
    part = import_module(f"benchmarks.reliability.{name}")
    print(f"\n{part.TITLE}", flush=True)
    rows = []
    for python in _environments() if getattr(part, "EVERY_ENVIRONMENT", False) else [sys.executable]:
        command = [python, "-m", "benchmarks.reliability", name, "--rows", "--seed", str(seed), "--scale", str(scale)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            watchdog = threading.Timer(LONGEST_PART, process.kill)
            watchdog.daemon = True
            watchdog.start()
            for line in process.stdout:
                row = Row(*json.loads(line))
                if python == sys.executable or not row.is_of_any(rows):
                    rows.append(row)
                    print(f"  {'BROKEN' if row.broken else 'ok':6} {_text(row)}", flush=True)
            watchdog.cancel()
        if process.returncode:
            how = "hung" if process.returncode == -signal.SIGKILL else f"ended with {process.returncode}"
            rows.append(Row(f"the part itself {how}", 1, 1))
            print(f"  BROKEN {_text(rows[-1])}", flush=True)
    command = f"python -m benchmarks.reliability {name} --seed {seed}" + ("" if scale == 1 else f" --scale {scale:g}")
    return Part(part.TITLE, part.ABOUT, command, rows)


def _text(row: Row) -> str:
    return f"{row.label}: {row.broken:,} of {row.tried:,}" + (f" ({row.note})" if row.note else "")


def _environments() -> list[str]:
    """Return this interpreter, and those that `make matrix` made for the newest versions of other frameworks."""
    elsewhere = dict.fromkeys(
        environment_of(framework, "newest")
        for framework in FRAMEWORKS
        if framework.versions and framework.hyphenated_name not in set(installed())
    )
    found = [ROOT / ".envs" / name / "bin" / "python" for name in elsewhere]
    return [sys.executable, *(str(python) for python in found if python.exists())]


if __name__ == "__main__":
    sys.exit(main())
