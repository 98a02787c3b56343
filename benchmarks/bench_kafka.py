"""Measure ``otel-loopguard watch --kafka`` beside bare reading and decoding: processor time a span, at a real broker.

python -m benchmarks.bench_kafka [--quick]

The broker is that of the tests; without it (`.ci/kafka` fetches it) nothing is measured. It runs in another process, whose
time is not counted.
"""

from __future__ import annotations

import os
import subprocess
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
from otel_loopguard.cli.watch.kafka import KafkaSettings, KafkaSource
from tests.environments import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.stack.harness.broker import Broker

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
