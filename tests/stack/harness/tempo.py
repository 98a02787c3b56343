"""A trace back end that takes OTLP as Tempo does, and remembers what it was given."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

from .process import free_ports

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Tempo(TraceServiceServicer):
    """Listens on one free port; ``start`` again after ``stop`` listens on the same one and has forgotten nothing."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self._server: grpc.Server | None = None
        self._lock = threading.Lock()
        self._deliveries: Counter[tuple[str, str]] = Counter()

    @property
    def settings(self) -> dict[str, str]:
        """The environment variables with which the collector sends to this server."""
        return {"LOOPGUARD_TEMPO_ENDPOINT": f"127.0.0.1:{self.port}"}

    def start(self) -> None:
        """Listen."""
        self._server = grpc.server(ThreadPoolExecutor(2))
        add_TraceServiceServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()

    def stop(self) -> None:
        """Refuse connections."""
        if self._server:
            self._server.stop(None).wait(5)
            self._server = None

    def Export(self, request: ExportTraceServiceRequest, _: Any) -> ExportTraceServiceResponse:  # noqa: N802
        """Take spans."""
        spans = [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
        with self._lock:
            self._deliveries.update((span.trace_id.hex(), span.span_id.hex()) for span in spans)
        return ExportTraceServiceResponse()

    def spans(self) -> Counter[str]:
        """The number of different spans received of each trace."""
        with self._lock:
            return Counter(trace for trace, _ in self._deliveries)

    def duplicates(self) -> int:
        """The number of spans received more than once."""
        with self._lock:
            return sum(count > 1 for count in self._deliveries.values())
