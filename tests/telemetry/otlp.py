"""An OTLP receiver in the test's process: every exported byte, and the decoded messages."""

from __future__ import annotations

import gzip
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_loopguard import semconv

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUESTS = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}


class Receiver:
    """The received requests, by path."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.bodies: dict[str, list[bytes]] = {path: [] for path in REQUESTS}

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a program that exports to this receiver."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_METRICS_EXPORTER": "otlp",
            "OTEL_LOGS_EXPORTER": "otlp",
            "OTEL_PYTHON_LOG_CORRELATION": "false",
        }

    def all_bytes(self) -> bytes:
        """All received bytes."""
        return b"\n".join(body for bodies in self.bodies.values() for body in bodies)

    def _parsed(self, path: str) -> Iterator[Any]:
        for body in self.bodies[path]:
            yield REQUESTS[path].FromString(body)

    @property
    def spans(self) -> list[Any]:
        """The spans of tool calls."""
        return [span for span in self.all_spans if semconv.TOOL_NAME in attributes(span)]

    @property
    def all_spans(self) -> list[Any]:
        """The spans of our scope."""
        return [
            span
            for request in self._parsed("/v1/traces")
            for resource in request.resource_spans
            for scope in resource.scope_spans
            if scope.scope.name == "otel_loopguard"
            for span in scope.spans
        ]

    @property
    def log_records(self) -> list[Any]:
        """The log records of our scope."""
        return [
            record
            for request in self._parsed("/v1/logs")
            for resource in request.resource_logs
            for scope in resource.scope_logs
            if scope.scope.name == "otel_loopguard"
            for record in scope.log_records
        ]

    @property
    def metrics(self) -> list[Any]:
        """The metrics of our scope, as often as they were exported."""
        return [
            metric
            for request in self._parsed("/v1/metrics")
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            if scope.scope.name == "otel_loopguard"
            for metric in scope.metrics
        ]

    def points(self, metric: str) -> list[dict[str, Any]]:
        """The data points of a counter in the last export that has it: attributes and ``value``, ``exemplars``."""
        found: list[dict[str, Any]] = []
        for request in self._parsed("/v1/metrics"):
            points = [
                {**attributes(point), "value": point.as_int or point.as_double, "exemplars": len(point.exemplars)}
                for resource in request.resource_metrics
                for scope in resource.scope_metrics
                for one in scope.metrics
                if one.name == metric
                for point in one.sum.data_points
            ]
            found = points or found
        return found


def attributes(item: Any) -> dict[str, Any]:
    """The attributes of a span, an event or a data point."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in item.attributes}


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver on a free port of the loopback interface."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            received.bodies[self.path].append(body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received = Receiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
