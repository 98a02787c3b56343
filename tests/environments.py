"""Environments for frameworks, which do not fit into one: uv makes them in .envs/, and they are used again."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_loopguard.instrumentation.targets import Framework

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".envs"
# The newest releases require a certifi that not every index has yet; the tests use no network.
OVERRIDES = ("certifi",)
SHARED: dict[str, dict[str, str]] = {
    "agents-newest": dict.fromkeys(
        (
            "agent_framework", "agno", "autogen", "crewai", "dspy", "haystack", "llama_index", "semantic_kernel",
            "smolagents", "strands",
        ),
        "newest",
    ),
    "agents-oldest": dict.fromkeys(
        ("agno", "anthropic_runner", "autogen", "dspy", "llama_index", "semantic_kernel", "smolagents"), "oldest"
    ),
    "agents-oldest-2": dict.fromkeys(("ag2", "crewai", "haystack", "strands"), "oldest"),
    "runners-newest": dict.fromkeys(("anthropic_runner", "openai_runner"), "newest"),
}  # fmt: skip
"""By name of an environment: the version of each framework in it. Only versions whose requirements agree share one."""


def environment_of(framework: Framework, version: str) -> str:
    """Return the name of the environment in which this version of a framework is tested."""
    shared = (name for name, versions in SHARED.items() if versions.get(framework.name) == version)
    return next(shared, f"{framework.hyphenated_name}-{version}")


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
