"""One conversation whose steps are made by several processes, each of which finds the whole history in its requests."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.instrumentation.processes import ROOT, clean_environment
from tests.models.scripts import Looping, call
from tests.models.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

READ = call("read_file", path="a.txt")


class Worker:
    """A process of ``tests.instrumentation.worker``."""

    def __init__(self, server: Server) -> None:
        command = [sys.executable, "-m", "tests.instrumentation.worker", server.url]
        self.process = subprocess.Popen(
            command, env=clean_environment(), cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def step(self, messages: list[Any]) -> list[Any]:
        """Have the worker ask the model once, and run its tools."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(messages) + "\n")
        self.process.stdin.flush()
        given: list[Any] = json.loads(self.process.stdout.readline())
        return given

    def counted(self) -> tuple[list[str], int]:
        """End the worker, and return the outcomes of the calls that it has counted, and their trips."""
        counted = json.loads(self.process.communicate(timeout=60)[0])
        return counted["outcomes"], counted["trips"]


def loop(server: Server, workers: Iterator[Worker]) -> None:
    """Have the steps of a conversation made, each by the next worker, until the model answers."""
    messages: list[Any] = [{"role": "user", "content": "task-1: what is in it?"}]
    while messages[-1]["role"] != "assistant":
        messages = next(workers).step(messages)


def test_each_call_of_a_loop_over_two_workers_is_counted_once() -> None:
    """The loop ends as in one process, with the model's answer to the 10th request, and each call has one span."""
    with Server(Looping(READ)).running() as server:
        workers = Worker(server), Worker(server)
        loop(server, itertools.cycle(workers))
        counted = [worker.counted() for worker in workers]
    assert len(server.exchanges) == 10
    assert server.exchanges[-1].json["tool_choice"] == "none"
    assert counted == [(["nudged"] * 4, 4), (["executed", *["nudged"] * 4], 4)]


def test_a_fresh_process_judges_by_the_whole_history_and_counts_the_last_step() -> None:
    """The second equal call is told in a process that has not seen the first, which another one has counted."""
    with Server(Looping(READ, rounds=3)).running() as server:
        workers = [Worker(server) for _ in range(4)]
        loop(server, iter(workers))
        counted = [worker.counted() for worker in workers]
    assert [one.asked.reads("[loopguard]") for one in server.exchanges if one.asked] == [False, False, True, True]
    assert counted == [([], 0), (["executed"], 0), (["nudged"], 1), (["nudged"], 1)]
