"""Begin and end turns without an end, some never ended, and look at the memory."""

from __future__ import annotations

import resource
from random import Random
from typing import TYPE_CHECKING

from opentelemetry.trace import NoOpTracerProvider

import otel_loopguard as loopguard
from benchmarks.reliability.result import Row
from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor
from otel_loopguard.instrumentation.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

TITLE = "Turns"
ABOUT = """Turns of 1 to 3 calls with drawn conversation ids, one after the other; and turns that are never ended.
*Broken*: turns or conversations that stay, or more than 5 MB of growth between the first tenth and the end."""
TURNS = 1_000_000
NEVER_ENDED = 100_000
LEAST_GROWTH_MB = 5


def measure(seed: int, scale: float) -> Iterator[Row]:
    """Measure ended turns, then turns that never end."""
    random, turns = Random(seed), max(2_000, int(TURNS * scale))
    runtime = Runtime(tracer_provider=NoOpTracerProvider())
    instrumentor = LoopGuardInstrumentor()
    instrumentor.instrument(runtime=runtime)
    first = 0.0
    for number in range(turns):
        if number == turns // 10:
            first = _memory()
        with loopguard.turn(f"conversation {random.getrandbits(48)}"):
            for _ in range(random.randint(1, 3)):
                loopguard.call("look", {"x": random.randint(1, 2)}, lambda x: f"result {x}")
    growth = _memory() - first
    left = runtime.guard.live + len(runtime.conversations)
    instrumentor.uninstrument()
    yield Row("turns one after the other", turns, left + (growth > LEAST_GROWTH_MB), f"{growth:+.1f} MB")

    guard, before, many = Guard(), _memory(), max(12_000, int(NEVER_ENDED * scale))
    for number in range(many):
        turn = guard.turn()
        call = ToolCall("look", {"x": number})
        turn.begin(call)
        turn.end(call, Outcome(f"result {number}"))
    yield Row(
        "turns that never end", many, int(guard.live > 10_000), f"{guard.live:,} live, {_memory() - before:+.1f} MB"
    )


def _memory() -> float:
    """Return the memory of this process now, in MB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20
