"""Say what the tests need and this machine lacks: python -m tests.needs. Such tests are skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATH = os.pathsep.join((os.environ.get("PATH", ""), str(ROOT / ".envs/valkey/usr/bin")))
NEEDS = {
    "tests/stack": (".ci/stack", ("prometheus", "promtool", "amtool", "collector")),
    "tests/report": (".ci/browser", ("chromium", "chromedriver")),
    "tests/store": (".ci/redis", ("redis-server", "redis-sentinel", "valkey-server")),
    "tests/hooks": (".ci/coding_agents", (".envs/coding-agents/installed.json",)),
    "tests/gateway": (".ci/gateway and .ci/clients", (".envs/gateway/bin/litellm", ".envs/clients/go/agent")),
}
"""By folder of tests: what installs the programs that they run, and these programs."""
BEFORE = """\
make test runs linters, all tests, and the oldest and the newest version of each framework in their environments,
which are downloaded once. That takes an hour on two processors; make check takes two minutes.
"""


def is_there(program: str) -> bool:
    """Find a program as the tests do."""
    if program == "collector":
        found = subprocess.run([ROOT / "deploy/collector/build", "--find"], capture_output=True, check=False)
        return found.returncode == 0
    return (ROOT / program).exists() if "/" in program else shutil.which(program, path=PATH) is not None


def lines() -> list[str]:
    """Return a line for each folder that lacks something."""
    lacking = {folder: [one for one in needed if not is_there(one)] for folder, (_, needed) in NEEDS.items()}
    return [
        f"  {folder}: without {', '.join(programs)}; {NEEDS[folder][0]} installs it"
        for folder, programs in lacking.items()
        if programs
    ]


if __name__ == "__main__":
    skipped = lines()
    print(BEFORE + "\n".join(["Skipped here:", *skipped] if skipped else ["No program is missing."]))
