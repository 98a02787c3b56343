"""Measure ``otel-loopguard watch --otlp`` beside bare decoding: processor time a span.

python -m benchmarks.bench_watch [--quick]

The clients of the receivers are another process, whose time is not counted. Metrics and logs are not exported.
"""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData

from benchmarks.harness import Section, compared, interleaved, main
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.watch.address import Address
from otel_loopguard.cli.watch.exports import Exports
from otel_loopguard.cli.watch.grpc_receiver import GrpcReceiver
from otel_loopguard.cli.watch.http_receiver import HttpReceiver
from otel_loopguard.cli.watch.live import LiveJudge
from otel_loopguard.cli.watch.report import WatchReport
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.shield import Shield
from otel_loopguard.spans.ancestry import Ancestry
from otel_loopguard.spans.otlp_protobuf import tool_spans_of
from otel_loopguard.telemetry.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SPANS = 200
"""In a message, as a collector's batch processor makes them: ten traces with twenty spans each."""
PADDING = "a line of text that a program wrote; " * 6
SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND
DECODED, READ, JUDGED, BY_GRPC, BY_HTTP = "decoded", "read", "judged", "received by gRPC", "received by HTTP"

_CLIENT = """
import sys, time
from benchmarks.bench_watch import messages
kind, address, count, tools = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
made = messages(count, tools)
sys.stdin.readline()
if kind == "grpc":
    import grpc
    send = grpc.insecure_channel(address).unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
    for one in made:
        while True:
            try:
                send(one)
                break
            except grpc.RpcError:
                time.sleep(0.02)
else:
    from http.client import HTTPConnection
    connection = HTTPConnection(address)
    for one in made:
        while True:
            connection.request("POST", "/v1/traces", one, {"content-type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                break
            time.sleep(0.02)
"""


def span(trace: int, number: int, tools: int) -> Span:
    """One span of a trace: the agent's, a tool call, or one of an HTTP client."""
    parent = 0 if number == 0 else 1
    if number == 0:
        name, attributes = "invoke_agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "worker"}
    elif number <= tools:
        name = "execute_tool read_file"
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "read_file",
            "gen_ai.tool.call.id": f"call-{trace}-{number}",
            "gen_ai.tool.call.arguments": f'{{"path": "src/module_{number}.py", "line": {number}}}',
            "gen_ai.tool.call.result": f"{number}: {PADDING}",
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
            "user_agent.original": PADDING[:40],
            "http.route": "/items/{item}",
        }
    return Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=(trace << 16 | number + 1).to_bytes(8, "big"),
        parent_span_id=(trace << 16 | parent).to_bytes(8, "big") if parent else b"",
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


def timed(work: Callable[[], object], spans: int) -> float:
    """Microseconds of processor time a span, of all threads of this process."""
    started = time.process_time()
    work()
    return (time.process_time() - started) / spans * 1e6


def decode(made: Iterable[bytes]) -> None:
    """Decode the messages, and look at nothing in them."""
    for one in made:
        TracesData.FromString(one)


def read(made: Iterable[bytes]) -> None:
    """Decode the messages, find their tool calls, and keep the spans around these."""
    ancestry = Ancestry()
    for one in made:
        for _ in tool_spans_of(TracesData.FromString(one), ancestry):
            pass


def judge() -> LiveJudge:
    """Return a live judge as the command has it; its metrics are made, and not exported."""
    policy = PolicyJudge(Policy())
    report = WatchReport(policy, Exports([], [], Shield(), interval=3600), Settings())
    return LiveJudge(policy, report, report.shield, window=1.0)


def take(made: Iterable[bytes]) -> None:
    """Judge the messages."""
    live = judge()
    for one in made:
        while not live.take(one):
            time.sleep(0.02)
    live.close()


def receive(kind: str, count: int, tools: int) -> float:
    """Receive the messages from another process, and judge them."""
    live = judge()
    receiver = (GrpcReceiver if kind == "grpc" else HttpReceiver)(Address("127.0.0.1", 0), live)
    receiver.start()
    command = [sys.executable, "-c", _CLIENT, kind, str(receiver.address), str(count), str(tools)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as client:

        def work() -> None:
            client.communicate(b"\n")
            receiver.stop()
            live.close()

        return timed(work, count * SPANS)


def sections(*, quick: bool) -> list[Section]:
    """Measure both mixes."""
    count, found = 20 if quick else 60, []
    for tools, share in ((1, "a twentieth"), (10, "half")):
        made = messages(count, tools)
        spans = count * SPANS
        cases = {
            DECODED: partial(timed, partial(decode, made), spans),
            READ: partial(timed, partial(read, made), spans),
            JUDGED: partial(timed, partial(take, made), spans),
            BY_GRPC: partial(receive, "grpc", count, tools),
            BY_HTTP: partial(receive, "http", count, tools),
        }
        about = (
            f"Processor time of one process for a span: {count} messages of {SPANS} spans, "
            f"{sum(map(len, made)) // spans} bytes each, {share} of them tool calls that differ."
        )
        rows = compared(interleaved(cases, 3 if quick else 7), DECODED, DECODED)
        found.append(Section(f"Spans by OTLP, {share} of them tool calls", about, rows))
    return found


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
