"""Measure what guards and tracers add to a tool call within frameworks: python -m benchmarks.performance.frameworks.

Each instrumentation runs in a process of its own, and the processes take turns. The environments are made by uv in
.envs/, with everything in its newest version. What cannot be installed or loaded is a row that says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.harness import Goal, Row, Section, main, number, progress, times
from benchmarks.performance.framework_process import BARE, NOTHING, OURS, OWN
from tests.environments import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Library(NamedTuple):
    """An instrumentation of others."""

    name: str
    distribution: str
    instrumentor: str
    """``module:Class`` of an instrumentor or a span processor, or ``own``."""
    alone: bool = False
    """True if it has files in common with another, so that it needs an environment of its own."""


class Case(NamedTuple):
    """Calls within a framework."""

    title: str
    framework: str
    """The name in ``framework_process``."""
    about: str
    requirements: tuple[str, ...]
    others: tuple[Library, ...]
    runs: int
    """Of a round; each makes 15 calls."""
    goal: Goal | None = None


def openinference(framework: str, instrumentor: str) -> Library:
    """The library of Arize."""
    distribution = f"openinference-instrumentation-{framework.replace('_', '-')}"
    return Library("OpenInference", distribution, f"openinference.instrumentation.{framework}:{instrumentor}")


def openllmetry(framework: str, instrumentor: str) -> Library:
    """The library of Traceloop."""
    distribution = f"opentelemetry-instrumentation-{framework.replace('_', '-')}"
    return Library("OpenLLMetry", distribution, f"opentelemetry.instrumentation.{framework}:{instrumentor}")


def genai(framework: str, instrumentor: str) -> Library:
    """OpenTelemetry's own."""
    distribution = f"opentelemetry-instrumentation-genai-{framework.replace('_', '-')}"
    module = f"opentelemetry.instrumentation.genai.{framework}"
    return Library("OpenTelemetry GenAI", distribution, f"{module}:{instrumentor}")


NOT_LESS = Goal(0, at_least=True, words=">= ours")
LANGCHAIN = (
    openinference("langchain", "LangChainInstrumentor"),
    openllmetry("langchain", "LangchainInstrumentor"),
    genai("langchain", "LangChainInstrumentor"),
)
CASES = (
    Case(
        "LangChain, `tool.invoke`",
        "langchain",
        "Calls of a tool without an agent, in turns of 15.",
        ("langchain", "langgraph"),
        LANGCHAIN,
        20,
        times(2),
    ),
    Case(
        "LangGraph, a call of an agent",
        "langgraph",
        "`create_agent` with a scripted model that makes 15 calls.",
        ("langchain", "langgraph"),
        LANGCHAIN,
        3,
        times(2),
    ),
    Case(
        "OpenAI Agents SDK, a call of an agent",
        "openai-agents",
        "`Runner.run` with a scripted model that makes 15 calls. The SDK's own tracing is on where an instrumentation "
        "needs it: not for otel_loopguard, nor for the bare span.",
        ("openai-agents",),
        (
            openinference("openai_agents", "OpenAIAgentsInstrumentor"),
            openllmetry("openai_agents", "OpenAIAgentsInstrumentor"),
            genai("openai_agents", "OpenAIAgentsInstrumentor"),
            Library(
                "OpenTelemetry openai-agents-v2",
                "opentelemetry-instrumentation-openai-agents-v2",
                "opentelemetry.instrumentation.openai_agents:OpenAIAgentsInstrumentor",
                alone=True,
            ),
        ),
        3,
    ),
    Case(
        "Pydantic AI, a call of an agent",
        "pydantic-ai",
        "`Agent.run` with a scripted model that makes 15 calls. OpenInference adds to the spans of the "
        "framework's own instrumentation.",
        ("pydantic-ai-slim",),
        (
            Library("Pydantic AI's own", "pydantic-ai-slim", OWN),
            openinference("pydantic_ai", "OpenInferenceSpanProcessor"),
        ),
        3,
    ),
    Case(
        "MCP, a call of a client",
        "mcp",
        "A client and a server in one process, 15 calls in a session; opening the session is in the time without "
        "anything.",
        ("mcp",),
        (openinference("mcp", "MCPInstrumentor"), openllmetry("mcp", "McpInstrumentor")),
        3,
    ),
)


class Process:
    """A process of ``framework_process``. ``problem`` says why it gives no figures."""

    def __init__(self, case: Case, library: Library, seed: int) -> None:
        self.library = library
        self.figures: list[float] = []
        """Microseconds of a call, of each round."""
        self.ready: dict[str, Any] = {}
        self.problem = ""
        self._process: subprocess.Popen[str] | None = None
        try:
            python = python_of(case, library)
        except subprocess.CalledProcessError as error:
            self._fail("it could not be installed", error.output)
            return
        except OSError as error:
            self._fail("uv did not run", str(error))
            return
        self._errors = tempfile.SpooledTemporaryFile(mode="w+")  # noqa: SIM115 - closed when the process has ended
        arguments = (case.framework, library.instrumentor, "--distributions", library.distribution, *case.requirements)
        self._process = subprocess.Popen(
            [str(python), "-W", "ignore", "-m", "benchmarks.performance.framework_process", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def start(self) -> None:
        """Wait until it is ready."""
        self.ready = self._answer() or {}

    def round(self, runs: int) -> None:
        """Measure these runs."""
        if self._process and not self.problem:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{runs}\n")
            self._process.stdin.flush()
            self.figures += [self._answer()]

    def _answer(self) -> Any:
        if self._process is None:
            return None
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return json.loads(line)
        self._errors.seek(0)
        self._fail("it failed", self._errors.read())
        return None

    def _fail(self, what: str, output: str) -> None:
        lines = output.replace(str(ROOT), ".").strip().splitlines()
        self.problem = f"not measured, {what}: {lines[-1][:160] if lines else 'no reason given'}"
        progress(f"  {self.library.name}: {self.problem}")

    def end(self) -> None:
        """Close its pipes, and wait for its end."""
        if self._process:
            with self._errors, contextlib.suppress(BrokenPipeError), self._process:
                pass


OF_OUR_OWN = (
    Library(NOTHING, "opentelemetry-sdk", NOTHING),
    Library(BARE, "opentelemetry-sdk", BARE),
    Library(OURS, "otel-loopguard", OURS),
)


def python_of(case: Case, library: Library) -> Path:
    """Return the Python of the case's environment, or of one with this library alone if they do not fit into one."""
    name = f"bench-{case.requirements[0]}"
    if not library.alone:
        others = [one.distribution for one in case.others if not one.alone]
        with contextlib.suppress(subprocess.CalledProcessError):
            return environment(name, tuple(dict.fromkeys((*case.requirements, *others))))
    return environment(f"{name}-{library.distribution}", (*case.requirements, library.distribution))


def measured_by(case: Case, rounds: int, seed: int) -> dict[str, Process]:
    """Run a process for each instrumentation. They take turns, beginning with another one in each round."""
    order = [Process(case, one, seed) for one in (*OF_OUR_OWN, *case.others)]
    for process in order:
        process.start()
    for number_of_round in range(rounds):
        first = number_of_round % len(order)
        for process in order[first:] + order[:first]:
            process.round(case.runs)
    for process in order:
        process.end()
    return {process.library.name: process for process in order}


def measured_in(case: Case, *, rounds: int, generations: int) -> Section:
    """Measure one framework.

    Each generation has new processes: the place of code and data in memory makes a process faster or slower.
    """
    progress(f"  {case.title}")
    processes: dict[str, Process] = {}
    for seed in range(generations):
        young = measured_by(case, rounds, seed)
        for name, process in processes.items():
            young[name].figures = process.figures + young[name].figures
        processes = young
    told = {name: version for one in processes.values() for name, version in one.ready.get("versions", {}).items()}
    named = sorted(told.keys() - {one.distribution for one in OF_OUR_OWN})
    versions = ", ".join(f"{name} {told[name]}" for name in named)
    return Section(case.title, f"{case.about} With {versions}.", list(rows(case, processes)))


def rows(case: Case, processes: dict[str, Process]) -> Iterator[Row]:
    """Rows of what each adds. The goal of others is that they add no less than we do."""
    nothing = processes[NOTHING]
    added = {
        name: []
        if one.problem or nothing.problem
        else [whole - base for whole, base in zip(one.figures, nothing.figures, strict=True)]
        for name, one in processes.items()
        if one is not nothing
    }
    yield Row("a call without anything", nothing.figures, note=nothing.problem)
    for name, values in added.items():
        one, ours = processes[name], added[OURS]
        # One that makes no spans of calls is not compared.
        rival = values and ours and name not in {OURS, BARE} and one.ready["spans"] >= 1
        yield Row(
            f"{name}, added",
            values,
            base=added[BARE] if values and name != BARE else [],
            base_name=BARE,
            goal=NOT_LESS if rival else case.goal if name == OURS else None,
            judged=[other - own for other, own in zip(values, ours, strict=True)] if rival else [],
            note=one.problem or f"{number(one.ready['spans'])} spans",
        )


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure each framework."""
    for case in CASES:
        yield measured_in(case, rounds=4 if quick else 13, generations=1 if quick else 2)


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
