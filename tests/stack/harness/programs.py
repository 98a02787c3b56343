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
# Not on the PATH: a script prints where they are.
_SCRIPTS = {"collector": "collector/build", "broker": ".ci/kafka"}


def need(program: str) -> str:
    """The path of a program; without it the test is skipped, or fails where the stack is required."""
    path = _find(program)
    if path:
        return path
    script = ".ci/kafka" if program == "broker" else ".ci/stack"
    reason = f"{program} is not installed here: {script} installs what these tests run"
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


@cache
def _find(program: str) -> str | None:
    if program in _SCRIPTS:
        return _find_with(ROOT / _SCRIPTS[program])
    return next((path for name in _NAMES[program] if (path := shutil.which(name))), None)


def _find_with(script: Path) -> str | None:
    found = subprocess.run([script, "--find"], capture_output=True, text=True, check=False, timeout=30)
    return found.stdout.strip() if found.returncode == 0 else None
