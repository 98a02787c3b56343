"""Measure the time added to a LangChain ``tool.invoke``: by a bare span, by us, by OpenInference and OpenLLMetry.

    python -m benchmarks.bench_langchain [--quick]

Each runs in separate processes, which take turns. Instrumentations that are not installed are left out.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from benchmarks.bench_call import NUMBERS, arguments, in_a_span, measure, provider, read_file
from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor
from otel_loopguard.instrumentation.turn_api import turn

LANGCHAIN = """
import sys
from benchmarks.bench_langchain import langchain_case
print(langchain_case(sys.argv[1], int(sys.argv[2])))
"""


def langchain_case(name: str, calls: int) -> float:
    """Measure a LangChain ``tool.invoke`` in a process with only this instrumentation."""
    from langchain_core.tools import tool

    made = provider()
    if name == "ours":
        LoopGuardInstrumentor().instrument(tracer_provider=made, meter_provider=MeterProvider([InMemoryMetricReader()]))
    elif name == "OpenInference":
        from openinference.instrumentation.langchain import LangChainInstrumentor

        LangChainInstrumentor().instrument(tracer_provider=made)
    elif name == "OpenLLMetry":
        from opentelemetry.instrumentation.langchain import LangchainInstrumentor

        LangchainInstrumentor().instrument(tracer_provider=made)

    @tool("read_file")
    def read(path: str, start: int, end: int, pattern: str) -> str:  # noqa: ARG001 - the tool's signature
        """Read a file."""
        return read_file()

    def run() -> None:
        read.invoke({"name": "read_file", "args": arguments(), "id": f"call-{next(NUMBERS)}", "type": "tool_call"})

    if name == "a bare span":
        traced, tracer = run, made.get_tracer("bare")

        def run() -> None:
            in_a_span(tracer, traced)

    for _ in range(200):
        run()
    with turn():
        return measure(run, calls)


def langchain(rounds: int, calls: int) -> dict[str, list[float]]:
    """Measure each instrumentation in separate processes, which take turns."""
    figures: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name in ("nothing", "a bare span", "ours", "OpenInference", "OpenLLMetry"):
            ended = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", LANGCHAIN, name, str(calls)],
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            if ended.returncode == 0:
                figures.setdefault(name, []).append(float(ended.stdout.split()[-1]))
    return figures


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    added = langchain(2 if quick else 5, 1_000)
    nothing = statistics.median(added["nothing"])
    print(f"LangChain tool.invoke without anything: {nothing:.0f} us; added by")
    for name in ("a bare span", "ours", "OpenInference", "OpenLLMetry"):
        if name in added:
            print(f"  {name:42} {statistics.median(added[name]) - nothing:10.0f}")


if __name__ == "__main__":
    main()
