"""What coding agents send of one run by OpenTelemetry: lines of OTLP as JSON, a file for each program.

``python -m tests.spans.coding_agents.record NAME`` records it again.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

SAMPLES = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.jsonl"))}


def lines(name: str) -> list[Any]:
    """The lines of a program."""
    return [json.loads(line) for line in SAMPLES[name].read_text("utf-8").splitlines()]


def as_protobuf(line: Any) -> bytes:
    """The same message in protobuf."""
    kind = LogsData if "resourceLogs" in line else TracesData
    return ParseDict(_with_bytes(line), kind()).SerializeToString()


def _with_bytes(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _with_bytes(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_bytes(one) for one in value]
    return b64encode(bytes.fromhex(value)).decode() if key in ("traceId", "spanId", "parentSpanId") else value
