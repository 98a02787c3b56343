"""Measure a replay of recorded runs, its time and its memory: python -m benchmarks.performance.replay.

The recorded runs are those of the accuracy figures. Without them nothing is measured: runs that are made up are easier.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Goal, Row, Section, compared, interleaved, main, times
from otel_loopguard.cli.replay.replay import Replay
from otel_loopguard.cli.replay.sources import Reader
from otel_loopguard.policy_files.load import load_preset, preset_names
from tests.engine.judges.corpus import CORPORA

if TYPE_CHECKING:
    from collections.abc import Iterator

MEGABYTE = 1 << 20
PARSED = "json.loads of each line"
GOAL = times(10)
MOST_MEMORY = Goal(64)
ABOUT_TIME = (
    "Processor time of one process for a call of a recorded run, under each preset, beside that of `json.loads` of the "
    "same lines in the same round."
)


def recorded_lines(folder: Path = CORPORA) -> list[bytes]:
    """The lines of the recorded runs, none if they are not there."""
    files = sorted(folder.glob("*.jsonl.gz"))
    return [line for path in files for line in gzip.decompress(path.read_bytes()).splitlines(keepends=True)]


def write(path: Path, lines: list[bytes], size: int) -> None:
    """Write a file of about this size, of the lines over and over."""
    with path.open("wb") as file:
        while file.tell() < size:
            file.writelines(lines)


def parse(lines: list[bytes], calls: int) -> float:
    """Microseconds a call to parse the lines."""
    started = time.process_time()
    for line in lines:
        json.loads(line)
    return (time.process_time() - started) / calls * 1e6


def replay(path: Path, preset: str) -> float:
    """Microseconds a call to replay the file under a preset."""
    replayed = Replay([(preset, load_preset(preset).checked())], json=False)
    started = time.process_time()
    replayed.files([Reader(str(path))])
    return (time.process_time() - started) / replayed.calls * 1e6


def time_of_presets(lines: list[bytes], folder: Path, *, quick: bool) -> Section:
    """Measure each preset."""
    lines, path = lines * 4, folder / "runs.jsonl"
    write(path, lines, 1)
    calls = sum(len(turn["calls"]) for line in lines for turn in json.loads(line)["turns"])
    cases = {PARSED: partial(parse, lines, calls), **{name: partial(replay, path, name) for name in preset_names()}}
    rows = compared(interleaved(cases, 3 if quick else 11), PARSED, "json.loads", dict.fromkeys(preset_names(), GOAL))
    return Section("Replay of recorded runs", ABOUT_TIME, rows)


def command(path: Path, jobs: int) -> subprocess.Popen[bytes]:
    """Start a replay of this file."""
    given = [sys.executable, "-m", "otel_loopguard.cli.main", "replay", "--json", "--jobs", str(jobs), str(path)]
    return subprocess.Popen(given, stdout=subprocess.DEVNULL)


def memory(path: Path) -> float:
    """The peak memory, in MB, of a replay of this file."""
    _, status, usage = os.wait4(command(path, 1).pid, 0)
    assert status == 0
    return usage.ru_maxrss / 1024


def elapsed(path: Path, jobs: int) -> float:
    """The seconds that a replay of this file takes."""
    started = time.perf_counter()
    assert command(path, jobs).wait() == 0
    return time.perf_counter() - started


def whole_files(lines: list[bytes], folder: Path, *, quick: bool) -> Section:
    """Measure the memory, and several processes."""
    small, large, processors = folder / "small.jsonl", folder / "large.jsonl", os.cpu_count() or 1
    write(small, lines, 20 * MEGABYTE)
    write(large, lines, (60 if quick else 300) * MEGABYTE)
    rows = [
        Row(f"peak memory, {path.stat().st_size // MEGABYTE} MB", [memory(path)], "MB", goal=MOST_MEMORY)
        for path in (small, large)
    ]
    jobs = sorted({1, 2, processors})
    size = f"{large.stat().st_size // MEGABYTE} MB"
    cases = {f"{size}, --jobs {number}": partial(elapsed, large, number) for number in jobs}
    found = interleaved(cases, 2 if quick else 5)
    rows += [
        Row(row.what, row.values, "s", row.base, row.base_name)
        for row in compared(found, f"{size}, --jobs 1", "--jobs 1")
    ]
    about = f"The command itself, by the clock, on {processors} processors: other programs that run make it slower."
    return Section("Replay of large files", about, rows)


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure the replay."""
    lines = recorded_lines()
    if not lines:
        note = f"the recorded runs are not in {CORPORA.parent.name}/{CORPORA.name} beside the repository"
        rows = [Row(name, goal=GOAL, note=note) for name in preset_names()]
        yield Section("Replay of recorded runs", ABOUT_TIME, rows)
        return
    with tempfile.TemporaryDirectory() as name:
        yield time_of_presets(lines, Path(name), quick=quick)
        yield whole_files(lines, Path(name), quick=quick)


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
