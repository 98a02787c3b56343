"""Fork while three threads call tools in the same turn. The child calls tools, too."""

from __future__ import annotations

import os
import signal
import threading
import time
from random import Random
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import otel_loopguard as loopguard
from benchmarks.reliability.result import Row
from otel_loopguard.telemetry.settings import Settings
from otel_loopguard.testing import guarded
from otel_loopguard.turns.scope import current_scope, in_scope

if TYPE_CHECKING:
    from collections.abc import Iterator

TITLE = "Forks"
ABOUT = """Three threads call tools of one turn without a pause, while the process forks. The child calls guarded
functions in the turn that it inherits, and in a turn of its own."""
FORKS = 1_000
LONGEST_CHILD = 20
"""Seconds after which a child counts as hung."""
HUNG, FAILED, NOT_STOPPED, PARENTS_ID = -signal.SIGKILL, 1, 2, 3
BROKEN = {HUNG: "hang", FAILED: "fail", NOT_STOPPED: "stop no loop", PARENTS_ID: "have an id of the parent"}


def measure(seed: int, scale: float) -> Iterator[Row]:
    """Fork, and count how the children end."""
    random, rounds, stop = Random(seed), max(10, int(FORKS * scale)), threading.Event()
    ends = []
    # No span and no record is exported: OpenTelemetry's exporters in memory never renew their locks in a child.
    settings = Settings.from_environment({})._replace(log_events=False)
    with guarded(sampler=ALWAYS_OFF, settings=settings), loopguard.turn() as turn:
        scope = current_scope()

        def work(number: int) -> None:
            step = 0
            with in_scope(scope):
                while not stop.is_set():
                    step += 1
                    loopguard.call("look", {"n": number * 1_000_000 + step // 3}, _tool, known_tools=["look"])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(rounds):
            time.sleep(random.uniform(0, 0.005))
            pid = os.fork()
            if not pid:
                os._exit(_child(turn.id))
            ends.append(_end_of(pid))
        stop.set()
        for thread in threads:
            thread.join()
    for code, label in BROKEN.items():
        yield Row(f"children that {label}", rounds, ends.count(code))
    yield Row("children that end in another way", rounds, sum(end not in (0, *BROKEN) for end in ends))


def _child(parents: str) -> int:
    try:
        loopguard.call("look", {"n": 1}, _tool, known_tools=["look"])
        with loopguard.turn() as turn:
            read = [loopguard.call("read_file", {"n": 1}, _tool, known_tools=["read_file"]) for _ in range(5)]
            if turn.id == parents:
                return PARENTS_ID
        return 0 if "tool_loop_detected" in read[-1] else NOT_STOPPED
    except BaseException:  # noqa: BLE001 - the parent reads the exit status
        return FAILED


def _end_of(pid: int) -> int:
    """Return the child's exit status; end it if it hangs."""
    deadline = time.monotonic() + LONGEST_CHILD
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _tool(n: int) -> str:
    return f"result {n}"
