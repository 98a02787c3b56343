"""Measure the guard without OpenTelemetry, its time and its memory: python -m benchmarks.performance.core."""

from __future__ import annotations

import gc
import json
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import islice
from time import thread_time
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Goal, Row, Section, compared, interleaved, main, measure, times
from benchmarks.workload import TOOL, TURN, arguments, result
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard

if TYPE_CHECKING:
    from otel_loopguard.guard.turn import Turn

WORDS = (
    "the quick brown fox jumps over lazy dog entry file main line of to be is an at not".split()  # noqa: SIM905 - shorter
)
KNOWN = (TOOL, "write_file", "search", "run_tests", "list_files", "get_page")

# --- time --------------------------------------------------------------------------------------------------------

Script = Callable[[], Iterator[tuple[dict[str, Any], str]]]
"""The arguments and results of one call after the other, without an end."""


def first_calls(size: int, **more: Any) -> Script:
    """Calls that never repeat, with results of this size that have other words each time."""

    def script() -> Iterator[tuple[dict[str, Any], str]]:
        while True:
            yield {**arguments(), **more}, result(size)

    return script


def repeats_with(make: Callable[[int, random.Random], str]) -> Script:
    """One call with a different result each time, so that the results are compared at length."""

    def script() -> Iterator[tuple[dict[str, Any], str]]:
        rng, given = random.Random(2), arguments()
        while True:
            yield given, make(2_048, rng)

    return script


def prose(size: int, rng: random.Random) -> str:
    """Words in any order."""
    text = ""
    while len(text) < size:
        text += f"{rng.choice(WORDS)} "
    return text[:size]


def log(size: int, rng: random.Random) -> str:
    """Words with a timestamp and an id in every line."""
    text = ""
    while len(text) < size:
        stamp = f"2026-11-{rng.randint(10, 28)}T10:{rng.randint(10, 59)}:00Z req-{rng.getrandbits(48):012x}"
        text += f"{stamp} {prose(60, rng)}\n"
    return text[:size]


def loop() -> Iterator[tuple[dict[str, Any], str]]:
    """Make the same call with the same result."""
    given, text = arguments(), result()
    while True:
        yield given, text


def timed(script: Script, calls: int, turn_length: int = TURN) -> Callable[[], float]:
    """Return a function that measures the calls; these, their results and their turns are made before."""
    guard = Guard()
    made = script()

    def steps() -> Iterator[tuple[Turn, ToolCall, Outcome]]:
        for number, (given, text) in enumerate(islice(made, calls)):
            if number % turn_length == 0:
                turn = guard.turn()
            yield turn, ToolCall(TOOL, dict(given), None, KNOWN), Outcome(text)

    def run() -> float:
        gc.collect()
        gc.disable()
        spent, coming = 0.0, steps()
        # A turn at a time, as what a program has just made is in the processor's cache.
        while batch := list(islice(coming, TURN)):
            started = thread_time()
            for turn, call, outcome in batch:
                if turn.begin(call).runs:
                    turn.end(call, outcome)
            spent += thread_time() - started
        gc.enable()
        return spent / calls * 1e6

    return run


def bare_hashes() -> None:
    """The lower bound: one keyed hash of the arguments and one of the result."""
    blake2b(b"x" * 180, digest_size=8, key=b"k").digest()
    blake2b(b"x" * 2_048, digest_size=8, key=b"k").digest()


JSON_TEXT = json.dumps(
    [{"id": number, "name": f"entry {number}", "tags": ["a", "b"], "on": True} for number in range(160)]
)
PLAIN, WITH_JSON = "an argument of 4 B", "an argument that is JSON text"
HASHES = "two bare keyed hashes, 180 B and 2,048 B"
FIRST = "first call, result of"
GOALS = {
    **{f"{FIRST} {size:,} B": times(2.7) for size in (20, 2_048)},
    "a repeat whose result differs, 2,048 B of log": Goal(100),
    "a repeat whose result differs, 2,048 B of prose": Goal(150),
}


def time_of_calls(*, quick: bool) -> Section:
    """Measure ``Turn.begin`` and ``Turn.end``."""
    found = interleaved(
        {
            HASHES: lambda: measure(bare_hashes, 1_500),
            f"{FIRST} 20 B": timed(first_calls(20), 1_500),
            f"{FIRST} 2,048 B": timed(first_calls(2_048), 1_500),
            f"{FIRST} 20,480 B": timed(first_calls(20_480), 300),
            f"{FIRST} 2,048 B, arguments with a list and an object": timed(
                first_calls(2_048, flags=["a", "b"], nested={"x": True, "y": "a text", "z": 1.5}), 1_500
            ),
            f"{FIRST} 2,048 B, in a turn of 1,500 calls": timed(first_calls(2_048), 1_500, sys.maxsize),
            "a loop of 15 equal calls, 13 of them refused, for a call": timed(loop, 750),
            "a repeat whose result differs, 2,048 B of log": timed(repeats_with(log), 195),
            "a repeat whose result differs, 2,048 B of prose": timed(repeats_with(prose), 195),
            PLAIN: timed(first_calls(60, content="text"), 600),
            WITH_JSON: timed(first_calls(60, content=JSON_TEXT), 60),
        },
        7 if quick else 31,
    )
    per_byte = [
        1_000 * (whole - plain) / len(JSON_TEXT)
        for whole, plain in zip(found.pop(WITH_JSON), found.pop(PLAIN), strict=True)
    ]
    rows = compared(found, HASHES, "two hashes", GOALS)
    rows.append(Row(f"{WITH_JSON}, {len(JSON_TEXT):,} B, added a byte", per_byte, "ns", goal=Goal(10)))
    return Section(
        "The guard alone",
        "`Turn.begin` and `Turn.end` for a call, of the core, without OpenTelemetry, in turns of 15 calls. Arguments "
        "have 180 bytes and are new each time, as are the texts of the results.",
        rows,
    )


# --- memory ------------------------------------------------------------------------------------------------------


def held(calls: int, turns: int, *, tools: int = 1, each: int = 1, fail: bool = False) -> float:
    """Bytes that a live turn holds after these calls, the mean of some turns. Each call is made ``each`` times."""
    guard = Guard(Policy(action=Action.OBSERVE))
    scripts = [
        [
            (
                KNOWN[number % tools],
                {"path": f"file-{number}"},
                Outcome(f"{WORDS[number % 19]} {WORDS[number % 7]} is result {number}", is_error=fail),
            )
            for number in (place // each for place in range(calls))
        ]
        for _ in range(turns + 1)
    ]

    def play(script: list[tuple[str, dict[str, Any], Outcome]]) -> Turn:
        turn = guard.turn()
        for tool, given, outcome in script:
            call = ToolCall(tool, dict(given), None, KNOWN)
            turn.begin(call)
            turn.end(call, outcome)
        return turn

    play(scripts.pop())
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    live = [play(script) for script in scripts]
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / len(live)


def memory(*, quick: bool) -> Section:
    """Count the bytes that turns hold."""
    turns = 50 if quick else 300
    usual = {
        "one tool": held(TURN, turns),
        "errors": held(TURN, turns, fail=True),
        "six tools": held(TURN, turns, tools=6),
        "six tools, each call twice": held(TURN, turns, tools=6, each=2),
    }
    rows = [Row(f"{name}, {TURN} calls", [figure], "B", goal=Goal(4_096)) for name, figure in usual.items()]
    rows += [Row(f"six tools, {calls:,} calls", [held(calls, 3, tools=6)], "B") for calls in (64, 1_000, 5_000)]
    return Section("Memory of a live turn", "Bytes that a turn holds after its calls, by `tracemalloc`.", rows)


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure the guard."""
    yield time_of_calls(quick=quick)
    yield memory(quick=quick)


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
