"""All benchmarks, one after the other: python -m benchmarks."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    "bench_core",
    "bench_call",
    "bench_frameworks",
    "bench_export",
    "bench_startup",
    "bench_requests",
    "bench_replay",
)


def main() -> int:
    """Run each in a separate process, so that none warms another's caches. The exit status is 1 if one failed."""
    failed = []
    for name in BENCHMARKS:
        print(f"\n=== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
