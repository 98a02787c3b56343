"""Measure the speed and memory of a replay: python -m benchmarks.bench_replay [--gigabytes N].

Calls a second are counted in processor time of one core. The file consists of the real runs if they are available, else
of runs generated from a seed. It is written to a temporary folder and removed.
"""

from __future__ import annotations

import argparse
import gzip
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from otel_loopguard.cli.replay.replay import Replay
from otel_loopguard.cli.replay.sources import Reader
from otel_loopguard.core.policy.load import load_preset

if TYPE_CHECKING:
    from collections.abc import Iterator

CORPORA = Path(__file__).resolve().parents[2] / "shared" / "corpora"
BUDGET = 100_000
ROUNDS = 5
MEGABYTE = 1 << 20


def real_lines(folder: Path) -> list[bytes]:
    """The lines of the real runs."""
    files = [path for path in sorted(folder.glob("*.jsonl.gz")) if path.exists()]
    return [line for path in files for line in gzip.decompress(path.read_bytes()).splitlines(keepends=True)]


def drawn_lines(count: int = 800, seed: int = 7) -> list[bytes]:
    """Runs in the same shape: six calls, results of 700 bytes, one run in ten repeats itself."""
    rng = random.Random(seed)
    words = ["the", "run", "was", "started", "and", "nothing", "of", "it", "has", "changed", "since", "then", "but"]
    lines = []
    for number in range(count):
        kinds = 2 if number % 10 == 0 else 1_000
        calls = [
            {
                "tool": rng.choice(("search", "read_file", "get_user", "update_order")),
                "args": {"id": rng.randrange(kinds), "path": f"src/{rng.randrange(kinds)}.py"},
                "result": " ".join(rng.choices(words, k=130)),
                "is_error": False,
                "step": step,
            }
            for step in range(6)
        ]
        run = {"run_id": f"run {number}", "success": True, "tools": [], "turns": [{"calls": calls}]}
        lines.append(orjson.dumps(run) + b"\n")
    return lines


def repeated(lines: list[bytes], size: int) -> Iterator[bytes]:
    """Repeat the lines up to about this size."""
    written = 0
    while written < size:
        for line in lines:
            yield line
            written += len(line)


def write(path: Path, lines: list[bytes], size: int) -> None:
    """Write a file of about this size."""
    with path.open("wb") as file:
        file.writelines(repeated(lines, size))


def rate(path: Path, preset: str) -> float:
    """Calls a second of one core, the best of a few rounds, because other load only slows it down."""
    best = 0.0
    for _ in range(ROUNDS):
        replay = Replay([(preset, load_preset(preset).checked())], json=False)
        started = time.process_time()
        replay.files([Reader(str(path))])
        best = max(best, replay.calls / (time.process_time() - started))
    return best


PROGRAM = """
import resource, sys
from otel_loopguard.cli.main import main
sys.stdout = open("/dev/null", "w")
main(["replay", "--json", sys.argv[1]])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)
"""


def memory(path: Path) -> int:
    """The peak memory, in MB, of a separate process for this file."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, check=True)
    return int(ended.stderr.split()[-1])


def main() -> int:
    """Print the figures; exit status 1 if the budget is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=0.0, help="also replay a file of this size, for its memory")
    parser.add_argument("--corpora", type=Path, default=CORPORA)
    options = parser.parse_args()
    lines = real_lines(options.corpora)
    print(f"replay of {'real runs' if lines else 'runs drawn from a seed'}, budget {BUDGET:,} calls/s on one core")
    lines = lines or drawn_lines()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.jsonl"
        write(path, lines, 20 * MEGABYTE)
        met = True
        for preset in ("default", "chat_turn", "typed_window"):
            measured = rate(path, preset)
            met = met and (preset != "default" or measured >= BUDGET)
            print(f"  {preset:<14} {measured:10,.0f} calls/s")
        print(f"  memory, {path.stat().st_size // MEGABYTE:,} MB: {memory(path)} MB")
        if options.gigabytes:
            write(path, lines, int(options.gigabytes * 1024 * MEGABYTE))
            print(f"  memory, {path.stat().st_size // MEGABYTE:,} MB: {memory(path)} MB")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
