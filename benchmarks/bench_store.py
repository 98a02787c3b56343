"""Measure the shared store at a real server: time by the clock of a call in a shared turn, and memory of its cell.

python -m benchmarks.bench_store [--quick]

The server is that of the tests; without it (`.ci/redis` installs it) nothing is measured.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Row, Section, compared, interleaved, main
from benchmarks.workload import TOOL, arguments, result
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.words import Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from otel_loopguard.store.settings import open_store
from tests.store.servers import KEY, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.guard.turn import Turn

TURNS = (15, 50, 500)
"""Calls of a turn."""
WORKERS = (1, 8)
"""Processes on one turn."""


def guard_of(url: str) -> Guard:
    """Return the guard of a process with the store at a URL."""
    return Guard(Policy(hash_key=KEY), store=open_store(f"{url}?timeout=5", hash_key=KEY))


def work(turn: Turn, calls: int) -> None:
    """Make calls, each with new arguments and a new result."""
    for _ in range(calls):
        call = ToolCall(TOOL, arguments())
        if turn.begin(call).runs:
            turn.end(call, Outcome(result(500)))


def of_memory(server: Server) -> Section:
    """The bytes that a turn takes on the server."""
    guard = guard_of(server.url)
    rows = []
    for calls in TURNS:
        server("FLUSHALL")
        name = f"{calls} calls"
        work(guard.shared_turn(name, name), calls)
        (key,) = server("KEYS", "*")
        rows.append(Row(name, [server("MEMORY", "USAGE", key, "SAMPLES", 0)], unit="bytes"))
    return Section("Memory of a turn on the server", "MEMORY USAGE of its cell; each call reads another file.", rows)


def of_calls(server: Server, *, quick: bool) -> Section:
    """A whole call of the guard: its decision and its outcome, which are a swap each."""
    alone, shared = Guard(Policy(hash_key=KEY)), guard_of(server.url)
    names = itertools.count()

    def once(guard: Guard) -> float:
        name = f"turn {next(names)}"
        turn = guard.shared_turn(name, name)
        work(turn, 1)
        started = time.perf_counter()
        work(turn, 15)
        return (time.perf_counter() - started) / 15 * 1e6

    memory, cell = "a turn in memory", "a turn in the store"
    found = interleaved({memory: lambda: once(alone), cell: lambda: once(shared)}, 20 if quick else 200)
    return Section("A call of the guard", "`begin` and `end` by the clock, over TCP.", compared(found, memory, memory))


def begins(url: str, name: str, calls: int, number: int) -> list[float]:
    """Return the milliseconds of each begin of a process that works on a turn beside others, a second a call."""
    turn = guard_of(url).shared_turn(name, name)
    found = []
    time.sleep(number / 8)
    for _ in range(calls):
        call = ToolCall(TOOL, arguments() | {"worker": number})
        started = time.perf_counter()
        runs = turn.begin(call).runs
        found.append((time.perf_counter() - started) * 1e3)
        if runs:
            turn.end(call, Outcome(result(500)))
        time.sleep(1)
    return found


def of_workers(server: Server, *, quick: bool) -> Section:
    """The begin of a call while other processes work on the same turn."""
    rows = []
    for workers in WORKERS:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            ask = partial(begins, server.url, f"shared by {workers}", 5 if quick else 20)
            found = [milliseconds for one in pool.map(ask, range(workers)) for milliseconds in one[1:]]
        rows.append(Row(f"{workers} on one turn", [statistics.median(found)], unit="ms"))
        rows.append(Row(f"{workers} on one turn, the longest", [max(found)], unit="ms"))
    return Section("The begin of a call", "Milliseconds by the clock; each process makes a call a second.", rows)


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure at a server that keeps nothing on disk."""
    with ExitStack() as stopping:
        folder = Path(stopping.enter_context(tempfile.TemporaryDirectory()))
        server = Server(folder)
        stopping.callback(server.kill)
        server.start()
        yield of_memory(server)
        yield of_calls(server, quick=quick)
        yield of_workers(server, quick=quick)


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
