"""A hash of up to 64 KB never gives the interpreter lock up, and is that of one update."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from hashlib import blake2b

import pytest

from otel_loopguard.engine.values.fingerprint import Fingerprinter
from otel_loopguard.engine.values.hashing import MOST_AT_ONCE, feed
from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from otel_loopguard.instrumentation.functions.generators import MOST_TEXT, _StreamedResult

PRINTS = Fingerprinter(b"key")
ROUNDS = 50


class Recorded:
    """A hash that notes the size of each update."""

    def __init__(self):
        self.state = blake2b(digest_size=8)
        self.sizes = []

    def update(self, data):
        """Hash a piece, and note its size."""
        self.state.update(data)
        self.sizes.append(len(data))


@pytest.mark.parametrize("size", [0, 1, 2_046, 2_047, 2_048, 4_094, 4_095, 50_000, 65_536, 65_537, 200_000])
def test_pieces_have_the_hash_of_the_whole(size):
    """The pieces are all of the data, in order, and small up to 64 KB."""
    data, hashed = bytes(number % 251 for number in range(size)), Recorded()
    feed(hashed, data)
    assert hashed.state.digest() == blake2b(data, digest_size=8).digest()
    assert sum(hashed.sizes) == size
    assert max(hashed.sizes) <= MOST_AT_ONCE or size > 65_536
    assert PRINTS.of(data) == int.from_bytes(blake2b(data, digest_size=8, key=b"key").digest(), "big")


class Waiting:
    """Counts how often a thread that waits for the interpreter lock gets it."""

    def __init__(self):
        self.got = 0
        self.ended = False

    def run(self):
        """Count, and wait again."""
        while not self.ended:
            self.got += 1
            time.sleep(0)  # gives the lock back


@contextmanager
def waiting_thread():
    """Let a thread wait for the interpreter lock, which Python itself takes from no thread any more."""
    interval, waiting = sys.getswitchinterval(), Waiting()
    thread = threading.Thread(target=waiting.run)
    sys.setswitchinterval(3_600)
    try:
        thread.start()
        yield waiting
    finally:
        waiting.ended = True
        sys.setswitchinterval(interval)
        thread.join()


def times_given_up(step):
    """Return how often many runs of a step gave the interpreter lock up."""
    with waiting_thread() as waiting:
        before = waiting.got
        for number in range(ROUNDS):
            step(number)
            sum(range(20_000))  # the thread needs a moment to wait again
        return waiting.got - before


def call_of(size):
    """Return a step that is a call with a new result of that many bytes."""
    turn = Guard().turn()

    def step(number):
        call = ToolCall("read_file", {"path": f"file-{number}", "content": f"{number} " * (size // 4)})
        turn.begin(call)
        turn.end(call, Outcome(f"{number} is a word of it; " + "text " * (size // 5)))

    return step


def streamed(number):
    """Hash the rest of a long stream."""
    stream = _StreamedResult()
    stream.add("x" * (MOST_TEXT + 30_000 + number))
    stream.value()


STEPS = {
    "of": lambda number: PRINTS.of(b"x" * (30_000 + number)),
    "arguments": lambda number: PRINTS.arguments({"content": "x" * (30_000 + number)}),
    "result": lambda number: PRINTS.result(["x" * 30_000, number]),
    "block": lambda number: PRINTS.arguments({"image": b"x" * (30_000 + number)}),
    "stream": streamed,
    "call of 5 KB": call_of(5_000),
    "call of 50 KB": call_of(50_000),
}


@pytest.mark.parametrize("name", STEPS)
def test_no_thread_runs_in_between(name):
    """A thread that waits for the interpreter lock does not get it from a call with a result of up to 64 KB."""
    assert times_given_up(STEPS[name]) == 0


def test_a_larger_hash_lets_other_threads_run():
    """A hash that takes long gives the lock up, as ``hashlib`` does."""
    data = b"x" * 4_000_000
    assert times_given_up(lambda _: PRINTS.of(data)) > 0
