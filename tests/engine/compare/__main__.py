"""Compare more traces than the gate does: ``python -m tests.engine.compare``; ``--help`` names the options."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.engine.compare.mutations import traces
from tests.engine.compare.sides import OLD, ROOT, Side, difference, extract, seen, smallest


def main() -> int:
    """Print the smallest trace of each policy and way that differs, and the numbers of those that do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--new", type=Path, default=ROOT, help="the folder of the new package")
    parser.add_argument("--only", default="", help="only traces of this policy or way")
    given = parser.parse_args()
    differ: Counter[str] = Counter()
    things = 0
    with tempfile.TemporaryDirectory() as folder:
        if not extract(Path(folder)):
            print(f"this clone has no commit {OLD}")
            return 1
        sides = Side(Path(folder)), Side(given.new.resolve())
        for trace in traces(given.traces, given.first):
            if given.only not in (trace.policy, trace.way, ""):
                continue
            old, new = seen(sides, trace)
            things += len(old)
            if old == new:
                continue
            differ[f"{trace.policy}, {trace.way}"] += 1
            if differ[f"{trace.policy}, {trace.way}"] == 1:
                print(trace, difference(old, new).splitlines()[-1])
                small = smallest(trace, lambda fewer: len(set(map(tuple, seen(sides, fewer)))) > 1)
                print(f"{small}\n{difference(*seen(sides, small))}\n", flush=True)
        for side in sides:
            side.close()
    print(f"{things} decisions and other things were seen in traces up to seed {given.first + given.traces}.")
    print(f"Differing traces: {dict(differ) or 'none'}")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
