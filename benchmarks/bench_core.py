"""Measure the guard without OpenTelemetry: python -m benchmarks.bench_core."""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time
import tracemalloc
from hashlib import blake2b
from typing import TYPE_CHECKING

from otel_loopguard.core.guard import Guard
from otel_loopguard.core.model import Action, Outcome, ToolCall
from otel_loopguard.core.policy.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

ARGUMENTS = {
    "path": "/src/app/main.py",
    "start": 10,
    "end": 200,
    "query": "find all usages of the function",
    "flags": ["a", "b"],
    "nested": {"x": True, "y": "some text value here"},
}
WORDS = (
    "the quick brown fox jumps over lazy dog error file main line of to be is an at not".split()  # noqa: SIM905 - shorter
)


def text(size: int, rng: random.Random, *, volatile: bool = False) -> str:
    """Prose of about that many bytes; with ``volatile``, a timestamp and an id in every line, as in logs."""
    words: list[str] = []
    length = 0
    while length < size:
        word = rng.choice(WORDS)
        if volatile and len(words) % 12 == 0:
            word = f"2026-11-{rng.randint(10, 28)}T10:{rng.randint(10, 59)}:00Z req-{rng.getrandbits(48):012x}"
        words.append(word)
        length += len(word) + 1
    return " ".join(words)[:size]


def timed(calls: int, rounds: int, run: Callable[[int], None]) -> float:
    """Microseconds a call: the median of the rounds."""
    found = []
    for _ in range(rounds):
        gc.collect()
        started = time.perf_counter()
        run(calls)
        found.append((time.perf_counter() - started) / calls * 1e6)
    return statistics.median(found)


def fresh_calls(size: int, turn_length: int) -> Callable[[int], None]:
    """Calls that never repeat, in turns of that length."""
    rng = random.Random(1)
    outcomes = [Outcome(text(size, rng)) for _ in range(64)]

    def run(calls: int) -> None:
        guard = Guard()
        turn = guard.turn()
        for number in range(calls):
            if number % turn_length == 0:
                turn = guard.turn()
            call = ToolCall("read_file", {**ARGUMENTS, "start": number})
            turn.begin(call)
            turn.end(call, outcomes[number % 64])

    return run


def differing_repeats(size: int, *, volatile: bool) -> Callable[[int], None]:
    """A repeated call with a different result each time, so that results are masked and shaped."""
    rng = random.Random(2)
    outcomes = [Outcome(text(size, rng, volatile=volatile)) for _ in range(64)]

    def run(calls: int) -> None:
        turn = Guard(Policy(action=Action.OBSERVE)).turn()
        call = ToolCall("read_file", ARGUMENTS)
        for number in range(calls):
            turn.begin(call)
            turn.end(call, outcomes[number % 64])

    return run


def equal_repeats(size: int) -> Callable[[int], None]:
    """A loop: the third call and all others are refused."""
    outcome = Outcome(text(size, random.Random(3)))

    def run(calls: int) -> None:
        turn = Guard().turn()
        for _ in range(calls):
            call = ToolCall("read_file", ARGUMENTS)
            if turn.begin(call).runs:
                turn.end(call, outcome)

    return run


def bare_hashes(size: int) -> Callable[[int], None]:
    """The lower bound: one keyed hash of the arguments and one of the result."""
    result = text(size, random.Random(1)).encode()

    def run(calls: int) -> None:
        for _ in range(calls):
            blake2b(b"x" * 180, digest_size=8, key=b"k").digest()
            blake2b(result, digest_size=8, key=b"k").digest()

    return run


def memory_of_a_turn(calls: int, turns: int = 300) -> float:
    """Bytes that a live turn holds after that many calls."""
    guard = Guard()
    outcomes = [Outcome(f"result {number}") for number in range(calls)]
    guard.turn()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(turns):
        turn = guard.turn()
        for number in range(calls):
            call = ToolCall("read_file", {"path": f"file-{number}"})
            turn.begin(call)
            turn.end(call, outcomes[number])
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return held / turns


def main() -> int:
    """Print the table."""
    base = timed(20_000, 5, bare_hashes(2_048))
    print(f"{'what':58}{'us/call':>9}{'x bare':>9}")
    rows = [
        ("two bare keyed hashes, 180 B and 2 KB", base),
        ("begin + end, 20 B result, 10th to 64th call", timed(20_000, 5, fresh_calls(20, 64))),
        ("begin + end, 2 KB result, 10th call of a turn", timed(20_000, 5, fresh_calls(2_048, 10))),
        ("begin + end, 2 KB result, 10,000th call of a turn", timed(20_000, 5, fresh_calls(2_048, 10_000))),
        ("begin + end, 20 KB result", timed(5_000, 5, fresh_calls(20_480, 64))),
        ("a repeat whose result differs, 2 KB of prose", timed(2_000, 5, differing_repeats(2_048, volatile=False))),
        ("a repeat whose result differs, 2 KB of log", timed(2_000, 5, differing_repeats(2_048, volatile=True))),
        ("a repeat that is refused", timed(20_000, 5, equal_repeats(2_048))),
    ]
    for name, value in rows:
        print(f"{name:58}{value:9.2f}{value / base:9.2f}")
    for calls in (15, 64, 1_000, 5_000):
        print(f"{f'bytes of a live turn at {calls} calls':58}{memory_of_a_turn(calls, 300 if calls < 100 else 3):9.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
