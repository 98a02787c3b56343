"""Measure ``otel-loopguard watch --kafka`` beside bare reading and decoding: processor time a span, at a real broker.

python -m benchmarks.bench_kafka [--quick]

The broker is that of the tests; without it (`.ci/kafka` fetches it) nothing is measured. It runs in another process,
whose time is not counted. Metrics and logs are made, and not exported.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
import uuid
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData

from benchmarks.harness import Row, Section, compared, interleaved, main
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.watch.exports import Exports
from otel_loopguard.cli.watch.kafka import KafkaSource
from otel_loopguard.cli.watch.kafka_settings import KafkaSettings
from otel_loopguard.cli.watch.live import LiveJudge
from otel_loopguard.cli.watch.report import WatchReport
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.shield import Shield
from otel_loopguard.telemetry.settings import Settings
from tests.environments import ROOT
from tests.stack.harness.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC = "spans"
SPANS = 10
"""In a message: a step of an agent, a model request and a tool call each, as the collector's exporter writes them."""
PADDING = "a line of text that a program wrote; " * 6
READ, DECODED, WATCHED = "read", "read and decoded", "watch"


def message(trace: int, step: int) -> bytes:
    """One message: spans of one trace, half of which are tool calls that differ."""
    spans = []
    for index in range(SPANS):
        number = step * SPANS + index
        attributes = {
            "gen_ai.agent.name": "worker",
            "gen_ai.conversation.id": f"c{trace}",
            "server.address": "127.0.0.1",
        }
        if index % 2:
            attributes |= {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "read_file",
                "gen_ai.tool.call.id": f"call-{trace}-{number}",
                "gen_ai.tool.call.arguments": f'{{"path": "src/module_{number}.py", "line": {number}}}',
                "gen_ai.tool.call.result": f"{number}: {PADDING}",
            }
        else:
            attributes |= {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5", "note": PADDING}
        spans.append(
            Span(
                trace_id=trace.to_bytes(16, "big"),
                span_id=(trace << 24 | number + 1).to_bytes(8, "big"),
                name=attributes["gen_ai.operation.name"],
                start_time_unix_nano=1_700_000_000_000_000_000 + number * 1_000_000_000,
                end_time_unix_nano=1_700_000_000_500_000_000 + number * 1_000_000_000,
                attributes=[KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in attributes.items()],
            )
        )
    return TracesData(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])]).SerializeToString()


def read(address: str, messages: int, each: Callable[[bytes], object]) -> float:
    """Microseconds of processor time a span to read the topic."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest", "log_level": 2}
    )
    consumer.subscribe([TOPIC])
    started, count = time.process_time(), 0
    while count < messages:
        polled = consumer.poll(1)
        if polled is not None and polled.error() is None:
            each(polled.value())
            count += 1
    spent = time.process_time() - started
    consumer.close()
    return spent / messages / SPANS * 1e6


def watch(address: str, messages: int, admin: Broker) -> float:
    """Microseconds of processor time a span to read and judge the topic, and to commit it."""
    group, stopping = uuid.uuid4().hex, threading.Event()
    policy = PolicyJudge(Policy())
    report = WatchReport(policy, Exports([], [], Shield(), interval=3600), Settings())
    judge = LiveJudge(policy, report, report.shield, window=1.0, turns_by="agent_span")
    source = KafkaSource(KafkaSettings(address, TOPIC, group), judge, list)
    started = time.process_time()
    reader = threading.Thread(target=source.run, args=(stopping,))
    reader.start()
    while sum(admin.committed(group, TOPIC).values()) < messages:
        time.sleep(0.5)
    spent = time.process_time() - started
    stopping.set()
    reader.join()
    judge.close()
    return spent / messages / SPANS * 1e6


def sections(*, quick: bool) -> list[Section]:
    """Measure the three."""
    messages = 2_000 if quick else 20_000
    about = (
        f"Processor time of one process for a span of a topic: {messages:,} messages of {SPANS} spans, "
        f"{len(message(1, 1)) // SPANS} bytes each, half of them tool calls that differ, in four partitions."
    )
    if subprocess.run([ROOT / ".ci" / "kafka", "--find"], capture_output=True, check=False).returncode:
        return [Section("Spans from Kafka", about, [Row(WATCHED, note="no broker is here; .ci/kafka fetches it")])]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stopping:
        broker = Broker(Path(folder))
        stopping.callback(broker.stop)
        broker.format()
        broker.start()
        broker.wait_ready()
        broker.make_topic(TOPIC, partitions=4)
        broker.write(TOPIC, (message(1 + number % 1_000, number // 1_000) for number in range(messages)))
        cases = {
            READ: partial(read, broker.address, messages, len),
            DECODED: partial(read, broker.address, messages, TracesData.FromString),
            WATCHED: partial(watch, broker.address, messages, broker),
        }
        rows = compared(interleaved(cases, 3 if quick else 7), DECODED, DECODED)
    return [Section("Spans from Kafka", about, rows)]


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
