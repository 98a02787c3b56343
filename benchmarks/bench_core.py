"""Measure the guard without OpenTelemetry: its time, and the memory of its turns.

python -m benchmarks.bench_core [--quick]
"""

from __future__ import annotations

import gc
import json
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import count, islice
from time import thread_time
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Goal, Row, Section, compared, interleaved, main, measure, times
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.words import Action, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.guard.turn import Turn

WORDS = (
    "the quick brown fox jumps over lazy dog entry file main line of to be is an at not".split()  # noqa: SIM905 - shorter
)
KNOWN = ("read_file", "write_file", "search", "run_tests", "list_files", "get_page")
TURN = 15
"""Calls of a usual turn."""


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


def counters(size: int, rng: random.Random) -> str:
    """The same words each time, with other numbers."""
    text = ""
    while len(text) < size:
        text += f"row {rng.randrange(10_000)} of {rng.randrange(10_000)} has {rng.randrange(100)} entries\n"
    return text[:size]


# --- time --------------------------------------------------------------------------------------------------------

NUMBERS = count()
Step = tuple["Turn", ToolCall, Outcome]
Script = Callable[[], Iterator[tuple[dict[str, Any], str]]]
"""The arguments and results of one call after the other, without an end."""


def flat() -> dict[str, Any]:
    """New arguments of 180 bytes, as most tools have them."""
    return {"path": f"/src/app/{next(NUMBERS)}.py", "start": 10, "end": 200, "pattern": "x" * 120}


def nested() -> dict[str, Any]:
    """New arguments of 180 bytes, of all kinds."""
    return {
        "path": f"/src/app/{next(NUMBERS)}.py",
        "query": "find all usages of the function",
        "flags": ["a", "b"],
        "nested": {"x": True, "y": "some text value here", "z": 1.5},
    }


def first_calls(arguments: Callable[[], dict[str, Any]], size: int) -> Script:
    """Calls that never repeat, with results of this size that have other words each time."""

    def script() -> Iterator[tuple[dict[str, Any], str]]:
        rng = random.Random(1)
        words = prose(2 * size + 100, rng)
        while True:
            given = arguments()
            place = rng.randrange(size + 1)
            yield given, f"{rng.choice(WORDS)} {given['path']} {words[place:]}"[:size]

    return script


def repeats_with(make: Callable[[int, random.Random], str]) -> Script:
    """One call with a different result each time, so that the results are compared at length."""

    def script() -> Iterator[tuple[dict[str, Any], str]]:
        rng, given = random.Random(2), flat()
        while True:
            yield given, make(2_048, rng)

    return script


def loop() -> Iterator[tuple[dict[str, Any], str]]:
    """Make the same call with the same result."""
    given, result = flat(), prose(2_048, random.Random(3))
    while True:
        yield given, result


def timed(script: Script, calls: int, turn_length: int = TURN) -> Callable[[], float]:
    """Return a function that measures the calls; these, their results and their turns are made before."""
    guard = Guard()
    made = script()

    def steps() -> Iterator[Step]:
        for number, (given, result) in enumerate(islice(made, calls)):
            if number % turn_length == 0:
                turn = guard.turn()
            yield turn, ToolCall("read_file", dict(given), None, KNOWN), Outcome(result)

    def step(of: Step) -> None:
        turn, call, outcome = of
        if turn.begin(call).runs:
            turn.end(call, outcome)

    def run() -> float:
        gc.collect()
        gc.disable()
        spent, coming = 0.0, steps()
        # A turn at a time, as what a program has just made is in the processor's cache.
        while turn := list(islice(coming, TURN)):
            started = thread_time()
            for one in turn:
                step(one)
            spent += thread_time() - started
        gc.enable()
        return spent / calls * 1e6

    return run


def bare_hashes(size: int) -> Callable[[], None]:
    """The lower bound: one keyed hash of the arguments and one of the result."""
    result = prose(size, random.Random(1)).encode()

    def run() -> None:
        blake2b(b"x" * 180, digest_size=8, key=b"k").digest()
        blake2b(result, digest_size=8, key=b"k").digest()

    return run


JSON_TEXT = json.dumps(
    [{"id": number, "name": f"entry {number}", "tags": ["a", "b"], "on": True} for number in range(160)]
)
HASHES = "two bare keyed hashes, 180 B and 2,048 B"
FIRST = "begin + end, first call, result of"
PLAIN, WITH_JSON = "an argument of 4 B", "an argument that is JSON text"
GOALS = {
    **{f"{FIRST} {size:,} B": times(2.7) for size in (20, 1_500, 1_999, 2_048)},
    "a repeat whose result differs, 2,048 B of log": Goal(100),
    "a repeat whose result differs, 2,048 B of prose": Goal(150),
}


def writing(text: str) -> Callable[[], dict[str, Any]]:
    """Return a function that makes new arguments with this text."""
    return lambda: {"path": f"{next(NUMBERS)}.json", "content": text}


def time_of_calls(*, quick: bool) -> Section:
    """Measure ``Turn.begin`` and ``Turn.end``."""
    found = interleaved(
        {
            HASHES: lambda: measure(bare_hashes(2_048), 1_500),
            **{f"{FIRST} {size:,} B": timed(first_calls(flat, size), 1_500) for size in (20, 1_500, 1_999, 2_048)},
            f"{FIRST} 20,480 B": timed(first_calls(flat, 20_480), 300),
            f"{FIRST} 2,048 B, arguments with a list and an object": timed(first_calls(nested, 2_048), 1_500),
            f"{FIRST} 2,048 B, in a turn of 1,500 calls": timed(first_calls(flat, 2_048), 1_500, sys.maxsize),
            "a loop of 15 equal calls, 13 of them refused, for a call": timed(loop, 750),
            "a repeat whose result differs, 2,048 B of log": timed(repeats_with(log), 195),
            "a repeat whose result differs, 2,048 B of prose": timed(repeats_with(prose), 195),
            "a repeat whose result differs, 2,048 B, in numbers alone": timed(repeats_with(counters), 195),
            PLAIN: timed(first_calls(writing("text"), 60), 600),
            WITH_JSON: timed(first_calls(writing(JSON_TEXT), 60), 60),
        },
        7 if quick else 31,
    )
    per_byte = [
        1_000 * (whole - plain) / len(JSON_TEXT)
        for whole, plain in zip(found.pop(WITH_JSON), found.pop(PLAIN), strict=True)
    ]
    return Section(
        "The guard alone",
        "`Turn.begin` and `Turn.end` of the core, without OpenTelemetry, in turns of 15 calls. Arguments have "
        "180 bytes and are new each time, as are the texts of the results.",
        [
            *compared(found, HASHES, "two hashes", GOALS),
            Row(f"an argument that is JSON text, {len(JSON_TEXT):,} B, added a byte", per_byte, "ns", goal=Goal(10)),
        ],
    )


# --- memory ------------------------------------------------------------------------------------------------------

Made = tuple[str, dict[str, Any], Outcome]


def one_tool(calls: int) -> Iterator[Made]:
    """Read one file after the other."""
    for number in range(calls):
        yield "read_file", {"path": f"file-{number}"}, Outcome(f"{WORDS[number % 19]} is result {number}")


def errors(calls: int) -> Iterator[Made]:
    """Fail each time, in other words."""
    for number in range(calls):
        text = f"{WORDS[number % 19]} {WORDS[number % 7]} is missing from {number}"
        yield "read_file", {"path": f"file-{number}"}, Outcome(text, is_error=True)


def six_tools(calls: int) -> Iterator[Made]:
    """Use one tool after the other."""
    for number in range(calls):
        text = f"{WORDS[number % 19]} is result {number}"
        yield KNOWN[number % 6], {"path": f"file-{number}"}, Outcome(text)


def repeats(calls: int) -> Iterator[Made]:
    """Make each call twice, with six tools."""
    for number in range(calls):
        half = number // 2
        yield KNOWN[half % 6], {"path": f"file-{half}"}, Outcome(f"{WORDS[half % 19]} is result {half}")


def held(script: Callable[[int], Iterator[Made]], calls: int, turns: int) -> float:
    """Bytes that a live turn holds after these calls, the mean of some turns."""
    guard = Guard(Policy(action=Action.OBSERVE))
    scripts = [list(script(calls)) for _ in range(turns + 1)]
    play(guard, scripts.pop())
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    live = [play(guard, one) for one in scripts]
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / len(live)


def play(guard: Guard, script: Sequence[Made]) -> Any:
    """Make the calls, and return the turn."""
    turn = guard.turn()
    for tool, arguments, outcome in script:
        call = ToolCall(tool, dict(arguments), None, KNOWN)
        turn.begin(call)
        turn.end(call, outcome)
    return turn


def memory(*, quick: bool) -> Section:
    """Count the bytes that turns hold."""
    scripts = {"one tool": one_tool, "errors": errors, "six tools": six_tools, "six tools, each call twice": repeats}
    turns = 50 if quick else 300
    rows = [
        Row(f"{name}, {TURN} calls", [held(script, TURN, turns)], "B", goal=Goal(4_096))
        for name, script in scripts.items()
    ]
    rows += [Row(f"six tools, {calls:,} calls", [held(six_tools, calls, 3)], "B") for calls in (64, 1_000, 5_000)]
    return Section("Memory of a live turn", "Bytes that a turn holds after its calls, by `tracemalloc`.", rows)


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure the guard."""
    yield time_of_calls(quick=quick)
    yield memory(quick=quick)


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
