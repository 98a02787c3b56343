"""Measure the figures of docs/scale.md: the store, the watcher and the gateway. python -m benchmarks.scale [--quick].

The table there is written by hand from what this prints. Redis and LiteLLM's proxy are those of the tests: `.ci/redis`
and `.ci/gateway` install them.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData

from benchmarks.harness import Row, Section, compared, interleaved, main
from benchmarks.workload import TOOL, TURN, arguments, conversation, result
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.watch.address import ListenAddress
from otel_loopguard.cli.watch.exports import Exports
from otel_loopguard.cli.watch.grpc_receiver import GrpcReceiver
from otel_loopguard.cli.watch.http_receiver import HttpReceiver
from otel_loopguard.cli.watch.live import LiveJudge
from otel_loopguard.cli.watch.report import WatchReport
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from otel_loopguard.shield import Shield
from otel_loopguard.store.settings import open_store
from otel_loopguard.telemetry.settings import Settings
from tests.store.servers import KEY, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_loopguard.guard.turn import Turn
    from tests.gateway.proxy import Proxy
    from tests.gateway.test_replicas import Replica

# --- the store ---------------------------------------------------------------------------------------------------


def guard_of(url: str) -> Guard:
    """Return the guard of a process with the store at a URL."""
    return Guard(Policy(hash_key=KEY), store=open_store(f"{url}?timeout=5", hash_key=KEY))


def work(turn: Turn, calls: int) -> None:
    """Make calls, each with new arguments and a new result."""
    for _ in range(calls):
        call = ToolCall(TOOL, arguments())
        if turn.begin(call).runs:
            turn.end(call, Outcome(result(500)))


def of_store(*, quick: bool) -> Iterator[Section]:
    """The time of a call in a shared turn, and the bytes of its cell, at a server that keeps nothing on disk."""
    with ExitStack() as stopping:
        server = Server(Path(stopping.enter_context(TemporaryDirectory())))
        stopping.callback(server.kill)
        server.start()
        alone, shared = Guard(Policy(hash_key=KEY)), guard_of(server.url)
        rows, names = [], map(str, itertools.count())
        for calls in (TURN, 50, 500):
            server("FLUSHALL")
            work(shared.shared_turn(f"{calls} calls", "memory"), calls)
            (key,) = server("KEYS", "*")
            rows.append(Row(f"{calls} calls", [server("MEMORY", "USAGE", key, "SAMPLES", 0)], unit="bytes"))
        about = "MEMORY USAGE of its cell; each call reads another file."
        yield Section("Memory of a turn on the server", about, rows)

        def once(guard: Guard) -> float:
            name = next(names)
            turn = guard.shared_turn(name, name)
            work(turn, 1)
            started = time.perf_counter()
            work(turn, TURN)
            return (time.perf_counter() - started) / TURN * 1e6

        memory, cell = "a turn in memory", "a turn in the store"
        found = interleaved({memory: lambda: once(alone), cell: lambda: once(shared)}, 20 if quick else 200)
        about = "`begin` and `end` by the clock, over TCP."
        yield Section("A call of the guard", about, compared(found, memory, memory))


# --- the watcher -------------------------------------------------------------------------------------------------

SPANS = 200
"""In a message, as a collector's batch processor makes them: ten traces with twenty spans each."""
TEXT = "a line of text that a program wrote; " * 6
SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND
DECODED = "decoded"
_CLIENT = """
import sys, time
from benchmarks.scale import messages
kind, address, count, tools = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
made = messages(count, tools)
if kind == "grpc":
    import grpc
    export = grpc.insecure_channel(address).unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
    def send(one):
        try:
            export(one)
            return True
        except grpc.RpcError:
            return False
else:
    from http.client import HTTPConnection
    connection = HTTPConnection(address)
    def send(one):
        connection.request("POST", "/v1/traces", one, {"content-type": "application/x-protobuf"})
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200
sys.stdin.readline()
for one in made:
    while not send(one):
        time.sleep(0.02)
"""


def span(trace: int, number: int, tools: int) -> Span:
    """One span of a trace: the agent's, a tool call, or one of an HTTP client."""
    if number == 0:
        name, attributes = "invoke_agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "worker"}
    elif number <= tools:
        name = "execute_tool read_file"
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "read_file",
            "gen_ai.tool.call.id": f"call-{trace}-{number}",
            "gen_ai.tool.call.arguments": f'{{"path": "src/module_{number}.py", "line": {number}}}',
            "gen_ai.tool.call.result": f"{number}: {TEXT}",
        }
    else:
        name = "GET"
        attributes = {
            "http.request.method": "GET",
            "server.address": "catalogue.example",
            "server.port": "443",
            "url.full": f"https://catalogue.example/items/{number}?page={trace}",
            "http.response.status_code": "200",
            "network.protocol.version": "1.1",
            "user_agent.original": TEXT[:40],
            "http.route": "/items/{item}",
        }
    return Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=(trace << 16 | number + 1).to_bytes(8, "big"),
        parent_span_id=(trace << 16 | 1).to_bytes(8, "big") if number else b"",
        name=name,
        kind=1 if number <= tools else 3,
        start_time_unix_nano=BEGIN + number * SECOND,
        end_time_unix_nano=BEGIN + number * SECOND + SECOND // 2,
        attributes=[KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in attributes.items()],
    )


def messages(count: int, tools: int) -> list[bytes]:
    """Messages of twenty spans a trace, of which so many are tool calls."""
    made = []
    for number in range(count):
        spans = [span(1 + number * 10 + trace, index, tools) for trace in range(10) for index in range(20)]
        resource = ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])
        resource.resource.attributes.add(key="service.name").value.string_value = "agent"
        made.append(TracesData(resource_spans=[resource]).SerializeToString())
    return made


def timed(task: Callable[[], object], spans: int) -> float:
    """Microseconds of processor time a span, of all threads of this process."""
    started = time.process_time()
    task()
    return (time.process_time() - started) / spans * 1e6


def decode(made: list[bytes]) -> None:
    """Decode the messages, and look at nothing in them."""
    for one in made:
        TracesData.FromString(one)


def judge() -> LiveJudge:
    """Return a live judge as the command has it; its metrics are made, and not exported."""
    policy = PolicyJudge(Policy())
    report = WatchReport(policy, Exports([], [], Shield(), interval=3600), Settings())
    return LiveJudge(policy, report, report.shield, window=1.0)


def take(made: list[bytes]) -> None:
    """Judge the messages."""
    live = judge()
    for one in made:
        while not live.take(one):
            time.sleep(0.02)
    live.close()


def receive(kind: str, count: int, tools: int) -> float:
    """Receive the messages from another process, whose time is not counted, and judge them."""
    live = judge()
    receiver = (GrpcReceiver if kind == "grpc" else HttpReceiver)(ListenAddress("127.0.0.1", 0), live)
    receiver.start()
    command = [sys.executable, "-c", _CLIENT, kind, str(receiver.address), str(count), str(tools)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as client:

        def task() -> None:
            client.communicate(b"\n")
            receiver.stop()
            live.close()

        return timed(task, count * SPANS)


def of_watcher(*, quick: bool) -> Iterator[Section]:
    """Processor time a span, beside bare decoding, for two mixes."""
    count = 20 if quick else 60
    for tools, share in ((1, "a twentieth"), (10, "half")):
        made = messages(count, tools)
        spans = count * SPANS
        cases = {
            DECODED: partial(timed, partial(decode, made), spans),
            "judged": partial(timed, partial(take, made), spans),
            "received by gRPC": partial(receive, "grpc", count, tools),
            "received by HTTP": partial(receive, "http", count, tools),
        }
        about = (
            f"Processor time of one process for a span: {count} messages of {SPANS} spans, "
            f"{sum(map(len, made)) // spans} bytes each, {share} of them tool calls that differ."
        )
        rows = compared(interleaved(cases, 3 if quick else 7), DECODED, DECODED)
        yield Section(f"Spans by OTLP, {share} of them tool calls", about, rows)


# --- the gateway -------------------------------------------------------------------------------------------------

STEPS = 40
LENGTH = 2 + 2 * STEPS
"""Messages of a conversation, of which each request has two more."""
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


def own_work(replica: Replica, number: int) -> float:
    """Return the processor time of judging a request, in this process: the mean of a conversation."""
    sent = conversation(number, LENGTH)
    sizes = range(2, len(sent) + 1, 2)

    async def requests() -> float:
        started = time.thread_time()
        for size in sizes:
            await replica.send(sent[:size])
        return time.thread_time() - started

    return asyncio.run(requests()) / len(sizes) * 1e6


def processor_time(proxy: Proxy) -> float:
    """Return the seconds of processor time that the process of a proxy has used."""
    process = proxy._process
    assert process is not None
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def of_gateway(*, quick: bool) -> Iterator[Section]:
    """The guard alone, and then three proxies that run at once, whose conversations take turns."""
    import httpx

    from tests.gateway.proxy import KEY as PROXY_KEY
    from tests.gateway.proxy import OPENAI, START, Proxy
    from tests.gateway.test_replicas import Replica
    from tests.models.scripts import Working
    from tests.models.server import Server as Provider

    tool = {"type": "function", "function": {"name": TOOL, "parameters": {"type": "object"}}}
    numbers = itertools.count()
    with ExitStack() as stopping:
        folder = Path(stopping.enter_context(TemporaryDirectory()))
        (folder / "no_op.py").write_text(NO_OP)
        provider = stopping.enter_context(Provider(Working()).running())
        headers = {"authorization": f"Bearer {PROXY_KEY}"}
        client = stopping.enter_context(httpx.Client(headers=headers, timeout=60))
        store = Server(folder)
        stopping.callback(store.kill)
        store.start()
        alone = {GUARD: Replica(None), STORED: Replica(store.store())}  # type: ignore[arg-type]  # a log of another kind
        found = interleaved(
            {name: lambda one=one: own_work(one, next(numbers)) for name, one in alone.items()}, 10 if quick else 30
        )
        about = f"The callback's work in one process, spans included, without the proxy. {WORKLOAD}"
        yield Section("A request through LiteLLM's proxy: the guard alone", about, compared(found, GUARD, GUARD))
        shared = {"OTEL_PYTHON_LOOPGUARD_STORE": store.url, "OTEL_PYTHON_LOOPGUARD_HASH_KEY": "5f" * 32}
        proxies = {
            GUARD: Proxy(folder, provider),
            STORED: Proxy(folder, provider, **shared),
            NOTHING: Proxy(folder, provider, callback="no_op.callback"),
        }
        for proxy in proxies.values():
            stopping.callback(proxy.stop)
            proxy.start()
        for proxy in proxies.values():
            proxy.wait_ready(START)

        def spent(proxy: Proxy) -> float:
            sent, before = conversation(next(numbers), LENGTH), processor_time(proxy)
            for size in range(2, len(sent) + 1, 2):
                body = {"model": OPENAI, "messages": sent[:size], "tools": [tool]}
                response = client.post(f"{proxy.url}/v1/chat/completions", json=body)
                assert response.status_code == 200, response.text
            return (processor_time(proxy) - before) / (STEPS + 1) * 1e6

        found = interleaved({name: partial(spent, one) for name, one in proxies.items()}, 4 if quick else 20)
    about = f"{WORKLOAD} The clock of processes has steps of 10 ms, so each round is the mean of its conversation."
    title = "A request through LiteLLM's proxy: processor time of the proxy"
    yield Section(title, about, compared(found, NOTHING, NOTHING))


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure all three."""
    yield from of_store(quick=quick)
    yield from of_watcher(quick=quick)
    yield from of_gateway(quick=quick)


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
