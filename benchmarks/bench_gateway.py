"""Measure a request through LiteLLM's proxy with the guard, beside the same proxy with a callback that does nothing.

python -m benchmarks.bench_gateway [--quick]

The proxies run at once, each in front of a scripted provider on this machine, and their conversations take turns. A
conversation grows by a call and a result of 1 KB in each request; no call repeats. ``.ci/gateway`` makes the
environment of the proxies.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Section, compared, interleaved, main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gateway.proxy import Proxy
    from tests.gateway.test_replicas import Replica

STEPS = 40
GUARD, STORED, NOTHING = "the guard", "the guard with a store on this machine", "a callback that does nothing"
WORKLOAD = f"{STEPS + 1} chat completions of one conversation, each with a new call and result of 1 KB."
NO_OP = """
from litellm.integrations.custom_logger import CustomLogger


class NoOp(CustomLogger):
    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        return None

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        return None


callback = NoOp()
"""


def conversation(number: int) -> list[Any]:
    """A conversation whose calls are all different."""
    made: list[Any] = [{"role": "system", "content": "Help."}, {"role": "user", "content": f"task-{number}: question"}]
    for step in range(STEPS):
        call_id = f"call_{number}_{step}"
        function = {"name": "read_file", "arguments": json.dumps({"path": f"{call_id}.py"})}
        call = {"id": call_id, "type": "function", "function": function}
        made.append({"role": "assistant", "content": None, "tool_calls": [call]})
        made.append({"role": "tool", "tool_call_id": call_id, "content": call_id + " text" * 200})
    return made


def processor_time(proxy: Proxy) -> float:
    """Return the seconds of processor time that the process of a proxy has used."""
    process = proxy._process
    assert process is not None
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def own_work(replica: Replica, number: int) -> float:
    """Return the processor time of judging a request, in this process: the mean of a conversation."""
    messages = conversation(number)
    sizes = range(2, len(messages) + 1, 2)

    async def judge() -> float:
        started = thread_time()
        for size in sizes:
            await replica.send(messages[:size])
        return thread_time() - started

    return asyncio.run(judge()) / len(sizes) * 1e6


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure the guard alone, and then the proxies, round by round."""
    import httpx

    from tests.gateway.proxy import KEY, OPENAI, START, Proxy
    from tests.gateway.test_replicas import Replica
    from tests.models.scripts import Working
    from tests.models.server import Server
    from tests.store.servers import Server as Store

    tool = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}
    numbers = count()
    processor: dict[str, list[float]] = {GUARD: [], STORED: [], NOTHING: []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        (folder / "no_op.py").write_text(NO_OP)
        server = stack.enter_context(Server(Working()).running())
        client = stack.enter_context(httpx.Client(headers={"authorization": f"Bearer {KEY}"}, timeout=60))
        store = Store(folder)
        stack.callback(store.kill)
        store.start()
        alone = {GUARD: Replica(None), STORED: Replica(store.store())}  # type: ignore[arg-type]  # a log of another kind
        found = interleaved(
            {name: lambda one=one: own_work(one, next(numbers)) for name, one in alone.items()}, 10 if quick else 30
        )
        about = f"The callback's work in one process, spans included, without the proxy. {WORKLOAD}"
        yield Section("A request through LiteLLM's proxy: the guard alone", about, compared(found, GUARD, GUARD))
        shared = {"OTEL_PYTHON_LOOPGUARD_STORE": store.url, "OTEL_PYTHON_LOOPGUARD_HASH_KEY": "5f" * 32}
        proxies = {
            GUARD: Proxy(folder, server),
            STORED: Proxy(folder, server, **shared),
            NOTHING: Proxy(folder, server, callback="no_op.callback"),
        }
        for proxy in proxies.values():
            stack.callback(proxy.stop)
            proxy.start()
        for proxy in proxies.values():
            proxy.wait_ready(START)

        def wall(name: str) -> float:
            proxy, messages, seconds = proxies[name], conversation(next(numbers)), []
            before = processor_time(proxy)
            for size in range(2, len(messages) + 1, 2):
                body = {"model": OPENAI, "messages": messages[:size], "tools": [tool]}
                started = perf_counter()
                response = client.post(f"{proxy.url}/v1/chat/completions", json=body)
                seconds.append(perf_counter() - started)
                assert response.status_code == 200, response.text
            processor[name].append((processor_time(proxy) - before) / len(seconds) * 1e6)
            return statistics.median(seconds) * 1e6

        found = interleaved({name: lambda name=name: wall(name) for name in proxies}, 4 if quick else 20)
    about = (
        f"{WORKLOAD} One client, one worker, the provider on this machine. Each round is the median of a conversation."
    )
    yield Section("A request through LiteLLM's proxy: time", about, compared(found, NOTHING, NOTHING))
    rounds = {name: figures[1:] for name, figures in processor.items()}  # as the times, without the first
    yield Section(
        "A request through LiteLLM's proxy: processor time of the proxy",
        "The same requests. The clock of processes has steps of 10 ms, so each round is the mean of its conversation.",
        compared(rounds, NOTHING, NOTHING),
    )


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
