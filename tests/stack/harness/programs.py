"""The paths of the programs, and the handling of missing ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
REQUIRED = os.environ.get("LOOPGUARD_REQUIRE_STACK") == "1"

# Debian's name of Alertmanager's binary first: elsewhere it is called by its own name.
_NAMES = {
    "prometheus": ("prometheus",),
    "promtool": ("promtool",),
    "alertmanager": ("prometheus-alertmanager", "alertmanager"),
    "amtool": ("amtool",),
}


def need(program: str) -> str:
    """The path of a program; without it the test is skipped, or fails where the stack is required."""
    path = _find(program)
    if path:
        return path
    reason = f"{program} is not installed here: .ci/stack installs what these tests run"
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


@cache
def _find(program: str) -> str | None:
    if program == "collector":
        return _find_collector()
    return next((path for name in _NAMES[program] if (path := shutil.which(name))), None)


def _find_collector() -> str | None:
    """It is not on the PATH: the script that builds it prints where it is."""
    found = subprocess.run(
        [ROOT / "deploy" / "collector" / "build", "--find"], capture_output=True, text=True, check=False, timeout=30
    )
    return found.stdout.strip() if found.returncode == 0 else None
