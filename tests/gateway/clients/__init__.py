"""Agents in other languages, as their clients' documentation writes them, run as programs of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.environments import ENVIRONMENTS, ROOT
from tests.gateway.proxy import REQUIRED
from tests.instrumentation.processes import NOTHING_EXPORTED

HERE = Path(__file__).parent
BUILT = ENVIRONMENTS / "clients"
NODE = BUILT / "node"
GO = BUILT / "go" / "agent"
AGENTS: dict[str, tuple[str, ...]] = {
    "node": (
        "openai.chat", "openai.responses", "openai.responsesKept", "anthropic.messages",
        "ai-sdk.chat", "ai-sdk.responses", "ai-sdk.messages",
    ),
    "go": ("openai.chat",),
    "python": ("openai.chat", "openai.responses"),
}  # fmt: skip
"""The agents of each program."""
AT_ONCE = 4
"""Conversations that a program holds at once; the others wait for their turn."""
AT_MOST = 180
"""Seconds that a program may take."""


class Job(NamedTuple):
    """One conversation of one agent."""

    agent: str
    question: str
    stream: bool = False
    headers: dict[str, str] = {}

    @property
    def key(self) -> str:
        """The word of the question that names the conversation."""
        return self.question.split()[0]


class Ended(NamedTuple):
    """How a conversation ended, in the words of the program."""

    requests: int
    """Those that left, also those that the client sent again."""
    runs: list[str]
    """The tools that ran, in order."""
    answer: str
    error: dict[str, Any] | None
    """The exception as the program sees it: kind, status, type, message and body."""


class Running:
    """A program that holds its conversations. The requests of one conversation go to the addresses in turn.

    ``guarded`` starts one in Python with ``opentelemetry-instrument``.
    """

    def __init__(self, language: str, jobs: list[Job], *urls: str, guarded: bool = False) -> None:
        self._jobs = jobs
        launcher = [str(Path(sys.executable).with_name("opentelemetry-instrument"))] if guarded else []
        self._process = subprocess.Popen(
            [*launcher, *program(language), ",".join(urls)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={"PATH": os.environ["PATH"], **NOTHING_EXPORTED},
        )  # fmt: skip
        assert self._process.stdin
        self._process.stdin.writelines(json.dumps(job._asdict()) + "\n" for job in jobs)
        self._process.stdin.close()
        self._process.stdin = None

    def ended(self) -> dict[str, Ended]:
        """Wait for the end; return how each conversation ended, by its key."""
        output, errors = self._process.communicate(timeout=AT_MOST)
        assert self._process.returncode == 0, errors
        lines = [json.loads(line) for line in output.splitlines()]
        found = {Job(**{name: line[name] for name in Job._fields}).key: line for line in lines}
        assert found.keys() == {job.key for job in self._jobs}, errors
        return {key: Ended(*(line[name] for name in Ended._fields)) for key, line in found.items()}

    def kill(self) -> None:
        """Kill the program if it still runs."""
        with self._process:
            self._process.kill()


def program(language: str) -> list[str]:
    """The command of a program, built from the sources as they are now."""
    return {"node": _node, "go": _go, "python": _python}[language]()


def _python() -> list[str]:
    return [sys.executable, str(HERE / "python" / "agent.py")]


@cache
def _node() -> list[str]:
    """The sources are copied to the packages: Node looks for packages at the place of the source."""
    _need("node", NODE / "node_modules" / "ai")
    for source in HERE.glob("node/*.mjs"):
        shutil.copy(source, NODE)
    return ["node", str(NODE / "agent.mjs")]


@cache
def _go() -> list[str]:
    _need("go", GO)
    subprocess.run([ROOT / ".ci" / "clients", "go"], check=True)
    return [str(GO)]


def _need(command: str, built: Path) -> None:
    if shutil.which(command) and built.exists():
        return
    reason = f"the program over {command} is not built here: .ci/clients builds it"
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)
