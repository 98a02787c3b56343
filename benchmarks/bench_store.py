"""Measure the shared store at a real server: time by the clock of an append beside a PING, and memory of a log.

python -m benchmarks.bench_store [--quick]

The server is that of the tests; without it (`.ci/redis` installs it) nothing is measured.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Row, Section, compared, interleaved, main
from benchmarks.workload import TOOL, arguments, result
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.words import Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from otel_loopguard.store.connection import connect
from otel_loopguard.store.settings import open_store
from tests.store.servers import KEY, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.store.redis_log import RedisEventLog

CALLS, TURN = 1_000, 30
"""Appends in a round, and entries that a log gets: 15 calls have a beginning and an end each."""
EVENT = b"e" * 120
TURNS = (15, 50, 500)
"""Calls of a turn."""
_keys = (f"{number:032}" for number in itertools.count())
_ops = (number.to_bytes(8, "big") for number in itertools.count())


class Caller:
    """A process that works on one turn after the other, and has read all of its log."""

    def __init__(self, store: RedisEventLog) -> None:
        self.store = store
        self._begin()

    def _begin(self) -> None:
        self._key, self._epoch, self._seen = next(_keys), b"", 0

    def append(self) -> None:
        """Append one event in this thread."""
        reply = self.store.append(self._key, [(next(_ops), EVENT)], epoch=self._epoch, seen=self._seen)
        self._read(None if reply is None else reply.epoch)

    async def aappend(self) -> None:
        """Append one event in this task."""
        reply = await self.store.aappend(self._key, [(next(_ops), EVENT)], epoch=self._epoch, seen=self._seen)
        self._read(None if reply is None else reply.epoch)

    def _read(self, epoch: bytes | None) -> None:
        if epoch is None:
            msg = f"the store failed: {self.store.failures}"
            raise RuntimeError(msg)
        self._epoch, self._seen = epoch, self._seen + 1
        if self._seen == TURN:
            self._begin()


def timed(function: Callable[[], object]) -> float:
    """Microseconds for a call, by the clock: most of it is waiting."""
    started = time.perf_counter()
    for _ in range(CALLS):
        function()
    return (time.perf_counter() - started) / CALLS * 1e6


def timed_tasks(store: RedisEventLog, at_once: int) -> float:
    """Microseconds for an append of a task, with this many tasks at work."""

    async def work(caller: Caller) -> None:
        for _ in range(CALLS // at_once):
            await caller.aappend()

    async def run() -> float:
        callers = [Caller(store) for _ in range(at_once)]
        await callers[0].aappend()
        started = time.perf_counter()
        await asyncio.gather(*map(work, callers))
        return (time.perf_counter() - started) / CALLS * 1e6

    return asyncio.run(run())


def pings(store: RedisEventLog) -> Callable[[], object]:
    """Return a function that sends a PING and reads its reply, over a connection as the store has it."""
    connection = connect(store.url.addresses[0], store.url.login, 0, None)
    return lambda: connection.exchange([("PING",)], time.monotonic() + 1)


def of_time(server: Server, *, quick: bool) -> Iterator[Section]:
    """An append by threads and by tasks, over TCP and a unix socket."""
    for name, url in (("TCP", server.url), ("a unix socket", f"unix://{server.socket}")):
        store = open_store(f"{url}?timeout=1", hash_key=KEY)
        caller, send = Caller(store), pings(store)
        caller.append()
        ping = "PING"
        cases = {
            ping: lambda send=send: timed(send),
            "append, a thread": lambda caller=caller: timed(caller.append),
            "append, a task": lambda store=store: timed_tasks(store, 1),
            "append, ten tasks": lambda store=store: timed_tasks(store, 10),
        }
        found = interleaved(cases, 5 if quick else 25)
        about = f"Microseconds by the clock for one event of {len(EVENT)} B, in logs of up to {TURN} entries."
        yield Section(f"An append over {name}", about, compared(found, ping, ping))


def of_outage(server: Server, *, quick: bool) -> Section:
    """A call that does not reach the server."""
    store = open_store(server.url, hash_key=KEY)
    server.kill()
    while not store.failures["breaker_open"]:
        store.append("turn", [(b"operation", EVENT)], epoch=b"", seen=0)

    def refused() -> object:
        return store.append("turn", [(b"operation", EVENT)], epoch=b"", seen=0)

    rounds = interleaved({"breaker open": lambda: timed(refused)}, 5 if quick else 25)
    return Section(
        "A call while the server is away", "Its probes are among the calls.", [Row("append", rounds["breaker open"])]
    )


def of_memory(server: Server) -> Section:
    """The bytes that a turn takes on the server, as the guard writes it."""
    guard = Guard(Policy(hash_key=KEY), log=open_store(f"{server.url}?timeout=5", hash_key=KEY))
    rows = []
    for calls in TURNS:
        server("FLUSHALL")
        name = f"{calls} calls"
        work(guard.shared_turn(name, name), calls)
        (key,) = server("KEYS", "*")
        rows.append(Row(name, [server("MEMORY", "USAGE", key, "SAMPLES", 0)], unit="bytes"))
    return Section("Memory of a turn on the server", "MEMORY USAGE of its key; each call reads another file.", rows)


def work(turn: Turn, calls: int) -> None:
    """Make calls, each with new arguments and a new result."""
    for _ in range(calls):
        call = ToolCall(TOOL, arguments())
        if turn.begin(call).runs:
            turn.end(call, Outcome(result(500)))


def of_calls(server: Server, *, quick: bool) -> Section:
    """A whole call of the guard: its decision and its outcome, which are an append each."""
    store = open_store(f"{server.url}?timeout=5", hash_key=KEY)
    alone, shared = Guard(Policy(hash_key=KEY)), Guard(Policy(hash_key=KEY), log=store)
    names = itertools.count()

    def once(guard: Guard) -> float:
        name = f"turn {next(names)}"
        turn = guard.shared_turn(name, name)
        work(turn, 1)
        started = time.perf_counter()
        work(turn, 15)
        return (time.perf_counter() - started) / 15 * 1e6

    memory, log = "a turn in memory", "a turn in the store"
    found = interleaved({memory: lambda: once(alone), log: lambda: once(shared)}, 50 if quick else 500)
    return Section("A call of the guard", "`begin` and `end` by the clock, over TCP.", compared(found, memory, memory))


def of_server(server: Server) -> Section:
    """The processor time that the server itself takes for an append, from many tasks at once."""
    store = open_store(f"{server.url}?timeout=5", hash_key=KEY)
    timed_tasks(store, 10)
    before = processor_time(server)
    for _ in range(10):
        timed_tasks(store, 10)
    figure = (processor_time(server) - before) / (10 * CALLS) * 1e6
    return Section("The server", "Processor time for an append, of ten tasks at work.", [Row("append", [figure])])


def processor_time(server: Server) -> float:
    """Seconds that the server has worked."""
    fields = dict(line.partition(b":")[::2] for line in server("INFO", "cpu").split(b"\r\n"))
    return float(fields[b"used_cpu_user"]) + float(fields[b"used_cpu_sys"])


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure at a server that keeps nothing on disk."""
    with ExitStack() as stopping:
        folder = Path(stopping.enter_context(tempfile.TemporaryDirectory()))
        server = Server(folder)
        stopping.callback(server.kill)
        server.start()
        yield of_memory(server)
        yield from of_time(server, quick=quick)
        yield of_calls(server, quick=quick)
        yield of_server(server)
        yield of_outage(server, quick=quick)


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
