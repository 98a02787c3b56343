"""Environments for frameworks, which do not fit into one: uv makes them in .envs/, and they are used again."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".envs"
# The newest releases require a certifi that not every index has yet; the tests use no network.
OVERRIDES = ("certifi",)


def environment(
    name: str, requirements: tuple[str, ...], *, python: str = sys.executable, own: bool = True, upgrade: bool = False
) -> Path:
    """Make an environment with these requirements and our package, unless it is there; return its Python.

    ``own=False`` leaves our package out. Raises ``CalledProcessError``, with uv's output, if it cannot be made.
    """
    folder = ENVIRONMENTS / name
    made = folder / "bin" / "python"
    text = "\n".join((sys.version, str(own), *requirements, (ROOT / "pyproject.toml").read_text()))
    stamp, mark = hashlib.sha256(text.encode()).hexdigest(), folder / "requirements.sha256"
    if not upgrade and made.exists() and mark.exists() and mark.read_text() == stamp:
        return made
    uv("venv", "--quiet", "--clear", "--python", python, str(folder))
    overrides = folder / "overrides.txt"
    overrides.write_text("\n".join(OVERRIDES))
    wanted = ("-e", str(ROOT), *requirements) if own else requirements
    uv("pip", "install", "--quiet", "--python", str(made), "--overrides", str(overrides), *wanted)
    mark.write_text(stamp)
    return made


def uv(*arguments: str) -> None:
    """Run uv."""
    captured(["uv", *arguments], timeout=900, check=True, env={**os.environ, "VIRTUAL_ENV": ""})


def captured(command: list[str], *, check: bool = False, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command and keep its output and errors as one text."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=check, **options)
