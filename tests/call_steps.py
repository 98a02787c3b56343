"""Count the function calls and memory blocks of usual calls, which are the same on every machine.

    python -m tests.call_steps                     # all figures
    python -m tests.call_steps "a guarded call"    # and its functions, with the number of calls of each

A figure is for one call of a turn of 15 first calls. ``tests/test_call_steps.py`` has the limits. To see what a change
has added, run the second command before and after it, and compare.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

import otel_loopguard
from benchmarks.workload import TOOL, TURN, Nowhere, arguments, bare_span, result
from otel_loopguard import Guard, ToolCall, call, tool, turn
from otel_loopguard.engine.vocabulary import Outcome
from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from opentelemetry.trace import Tracer

PACKAGE = str(Path(otel_loopguard.__file__).parent) + "/"
WARM_UP = 3
KNOWN = (TOOL,)


class Steps(NamedTuple):
    """What a turn did, for one of its calls."""

    ours: float
    """Calls of functions of this package."""
    all: float
    """Calls of all functions, those in C and of other packages, too."""
    functions: Counter[str]
    """Ours by file and name, of the whole turn."""

    @property
    def files(self) -> set[str]:
        """The files of this package that each call visits."""
        return {name.partition(":")[0] for name, times in self.functions.items() if times >= TURN}


def count(run: Callable[[], object]) -> Steps:
    """Run a turn some times, then count one."""
    for _ in range(WARM_UP):
        run()
    functions: Counter[str] = Counter()
    every = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal every
        if event not in {"call", "c_call"}:
            return
        every += 1
        code = frame.f_code
        # Comprehensions are functions in some versions of Python; generators are called for each item.
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name[0] != "<":
            functions[f"{code.co_filename.removeprefix(PACKAGE)}: {getattr(code, 'co_qualname', code.co_name)}"] += 1

    gc.collect()
    gc.disable()  # functions of weak references would be counted where they happen to run
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return Steps(functions.total() / TURN, every / TURN, functions)


def kept(run: Callable[[], object]) -> float:
    """Return the memory blocks that a turn holds for each of its calls, while it lives: the median of five times.

    Threads that other tests have left may allocate meanwhile, or free.
    """
    return median(_kept(run) for _ in range(5))


def _kept(run: Callable[[], object]) -> float:
    live = [run() for _ in range(WARM_UP)]
    gc.collect()
    before = sys.getallocatedblocks()
    live += [run() for _ in range(10)]
    gc.collect()
    return (sys.getallocatedblocks() - before) / 10 / TURN


# --- turns of 15 first calls -------------------------------------------------------------------------------------

GIVEN = [arguments() for _ in range(TURN)]
TEXTS = {given["path"]: result() for given in GIVEN}
guard = Guard()


def read_file(**given: Any) -> str:
    """Return the text of a path."""
    return TEXTS[given["path"]]


@tool
async def read_file_async(**given: Any) -> str:
    """Return the text of a path, in a task."""
    return TEXTS[given["path"]]


decorated = tool(read_file)


def core() -> object:
    """Judge the calls without telemetry; return the turn."""
    one = guard.turn()
    for given in GIVEN:
        made = ToolCall(TOOL, given, None, KNOWN)
        one.begin(made)
        one.end(made, Outcome(TEXTS[given["path"]]))
    return one


def guarded() -> None:
    """Make the calls."""
    with turn():
        for given in GIVEN:
            call(TOOL, given, read_file, known_tools=KNOWN)


def guarded_function() -> None:
    """Call a decorated function."""
    with turn():
        for given in GIVEN:
            decorated(**given)


async def guarded_tasks() -> None:
    """Await a decorated function."""
    with turn():
        for given in GIVEN:
            await read_file_async(**given)


def in_bare_spans(tracer: Tracer) -> None:
    """Make the calls in spans, without a guard."""
    for given in GIVEN:
        with bare_span(tracer):
            read_file(**given)


def other_spans(tracer: Tracer) -> None:
    """Open spans that are no tool calls."""
    with tracer.start_as_current_span("request"):
        for _ in GIVEN:
            tracer.start_span("GET /items", attributes={"http.request.method": "GET"}).end()


def runtime(sampler: Any = ALWAYS_ON) -> tuple[Runtime, Tracer]:
    """Return a runtime whose spans are exported in the thread of the call, and a tracer of its program."""
    tracers = TracerProvider(sampler=sampler)
    tracers.add_span_processor(SimpleSpanProcessor(Nowhere()))
    made = Runtime(tracer_provider=tracers, meter_provider=MeterProvider([InMemoryMetricReader()]))
    made.providers.attach(tracers)
    return made, tracers.get_tracer("app")


def langchain_tool() -> Callable[[], None]:
    """Return a turn of calls of a LangChain tool, as a ``ToolNode`` makes them."""
    from langchain_core.tools import tool as as_tool

    @as_tool(TOOL)
    def read(path: str, start: int, end: int, pattern: str) -> str:
        """Read a file."""
        return TEXTS[path]

    def run() -> None:
        with turn():
            for number, given in enumerate(GIVEN):
                read.invoke({"name": TOOL, "args": given, "id": f"call-{number}", "type": "tool_call"})

    return run


def in_langchain() -> Steps:
    """Count the steps of a call of a LangChain tool."""
    made, _ = runtime()
    instrumentor = LoopGuardInstrumentor()
    instrumentor.instrument(runtime=made)
    try:
        return count(langchain_tool())
    finally:
        instrumentor.uninstrument()


BARE = "a bare span"


def measured() -> dict[str, Steps]:
    """Count the steps of each sort of call."""
    before = active_runtime.instrumented
    loop = asyncio.new_event_loop()
    plain = TracerProvider()
    plain.add_span_processor(SimpleSpanProcessor(Nowhere()))
    bare = plain.get_tracer("bare")
    recorded, tracer = runtime()
    sampled_out, _ = runtime(ALWAYS_OFF)
    try:
        found = {"begin + end": count(core), BARE: count(lambda: in_bare_spans(bare))}
        active_runtime.put(recorded)
        found["a guarded call"] = count(guarded)
        found["a call of a decorated function"] = count(guarded_function)
        found["an awaited call"] = count(lambda: loop.run_until_complete(guarded_tasks()))
        found["a span that is no tool call"] = count(lambda: other_spans(tracer))
        active_runtime.put(sampled_out)
        found["a call that is sampled out"] = count(guarded)
    finally:
        active_runtime.put(before)
        loop.close()
    return found


def main(names: list[str]) -> int:
    """Print all figures, and the functions of these calls."""
    found = measured()
    if unknown := set(names) - set(found):
        print(f"unknown: {', '.join(sorted(unknown))}; there are: {', '.join(found)}", file=sys.stderr)
        return 2
    for name, steps in found.items():
        print(f"{steps.ours:8.1f} functions of this package, {steps.all:8.1f} of all   {name}")
    print(f"{kept(core):8.1f} memory blocks kept by a live turn")
    for name in names:
        print(f"\n{name}, in a turn of {TURN} calls:")
        print("\n".join(f"{times:6}  {function}" for function, times in found[name].functions.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
