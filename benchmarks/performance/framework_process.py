"""Run calls of one framework in a process with one instrumentation.

``frameworks.py`` starts it in the framework's environment, and sends a line with a number of runs for each round, so
that processes take turns. The answer is a line with the microseconds of a call. An instrumentation stays on: some do
not switch off, and classes that are patched again and again are slower than others.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from importlib import import_module
from importlib.metadata import version
from time import process_time
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor

import otel_loopguard as loopguard
from benchmarks.harness import measure
from benchmarks.workload import NUMBERS, TOOL, TURN, Nowhere, arguments, bare_span, provider, result
from otel_loopguard.testing.agent import Ask

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP = 4
NOTHING, BARE, OURS, OWN = "nothing", "bare span", "otel_loopguard", "own"
DRIVERS = {
    "langgraph": ("langchain", "agent-invoke"),
    "openai-agents": ("openai_agents", "run"),
    "pydantic-ai": ("pydantic_ai", "run"),
    "mcp": ("mcp", "memory"),
}
RESULT = 1_500


class Instrumentation:
    """One instrumentation, which is switched on once."""

    def __init__(self, name: str, framework: str, tracers: Any, meters: Any) -> None:
        self._name, self._framework, self._tracers = name, framework, tracers
        self._tracer = tracers.get_tracer("benchmark")
        self._spans: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
        self._instrumentor: Any = None
        if name == OURS:
            name = "otel_loopguard.instrumentation.instrumentor:LoopGuardInstrumentor"
        if ":" in name:
            module, _, attribute = name.partition(":")
            self._instrumentor = getattr(import_module(module), attribute)()
        self._options = {"tracer_provider": tracers, "meter_provider": meters}

    def tool(self, path: str) -> str:  # noqa: ARG002 - the tool's signature
        """Return a new text, in a bare span if that is measured."""
        with self._spans():
            return result(RESULT)

    def on(self) -> None:
        """Switch on."""
        foreign = self._name not in {NOTHING, BARE, OURS}
        if self._name == BARE:
            self._spans = lambda: bare_span(self._tracer)
        if foreign and self._framework == "openai-agents":
            _trace_openai_agents()
        if foreign and self._framework == "pydantic-ai":
            from pydantic_ai import Agent
            from pydantic_ai.models.instrumented import InstrumentationSettings

            Agent.instrument_all(InstrumentationSettings(tracer_provider=self._tracers))
        if isinstance(self._instrumentor, SpanProcessor):  # it changes the spans of the framework's own
            self._tracers.add_span_processor(self._instrumentor)
        elif self._instrumentor:
            self._instrumentor.instrument(**self._options)


def _trace_openai_agents() -> None:
    """Switch the SDK's tracing on, without the exporter that would send it away."""
    from agents import set_trace_processors, set_tracing_disabled

    set_trace_processors([])
    set_tracing_disabled(False)


def workload(framework: str, tool: Callable[[str], str], *, in_turn: bool) -> Callable[[], None]:
    """Return a function that makes 15 tool calls: an agent's run, or direct ones."""
    if framework == "langchain":
        return _invocations(tool, in_turn=in_turn)
    module, name = DRIVERS[framework]
    drive = import_module(f"tests.scripted.{module}").DRIVERS[name]

    def read_file(path: str) -> str:
        """Read a file."""
        return tool(path)

    def run() -> None:
        steps = [[Ask(TOOL, {"path": f"/src/app/{next(NUMBERS)}.py"})] for _ in range(TURN)]
        transcript = drive({TOOL: read_file}, steps)
        if transcript.error or len(transcript.read) != TURN or transcript.refused:
            raise RuntimeError(f"the run went wrong: {transcript.error!r}, {transcript.read}")

    return run


def _invocations(tool: Callable[[str], str], *, in_turn: bool) -> Callable[[], None]:
    from langchain_core.tools import tool as langchain_tool

    @langchain_tool(TOOL)
    def read(path: str, start: int, end: int, pattern: str) -> str:  # noqa: ARG001 - the tool's signature
        """Read a file."""
        return tool(path)

    def run() -> None:
        with loopguard.turn() if in_turn else contextlib.nullcontext():
            for _ in range(TURN):
                call = {"name": TOOL, "args": arguments(), "id": f"call-{next(NUMBERS)}", "type": "tool_call"}
                read.invoke(call)

    return run


def main() -> int:
    """Say what is here, then measure a round for each line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("framework")
    parser.add_argument("instrumentation", help=f"{NOTHING}, {BARE}, {OURS}, {OWN}, or module:Class")
    parser.add_argument("--distributions", nargs="*", default=[], help="whose versions are told")
    options = parser.parse_args()
    # What libraries print is no figure.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    counted = Nowhere()
    tracers, meters = provider(exporter=counted), MeterProvider([InMemoryMetricReader()])
    one = Instrumentation(options.instrumentation, options.framework, tracers, meters)
    run = workload(options.framework, one.tool, in_turn=options.instrumentation == OURS)

    def spent(runs: int) -> float:
        """Microseconds for a call, of all threads."""

        def all_runs() -> None:
            for _ in range(runs):
                run()

        run()
        return measure(all_runs, 1, process_time) / runs / TURN

    spent(WARM_UP)
    one.on()
    spent(WARM_UP)
    tracers.force_flush()
    told = {name: version(name) for name in options.distributions}
    print(json.dumps({"spans": counted.spans / (WARM_UP + 1) / TURN, "versions": told}), file=answers)
    for line in sys.stdin:
        print(spent(int(line)), file=answers)
    os._exit(0)  # other libraries' threads and exit functions are not measured


if __name__ == "__main__":
    sys.exit(main())
