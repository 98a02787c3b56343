"""Receive OTLP by gRPC, and hand each message to the live judge.

A full queue is answered with UNAVAILABLE: a collector tries again then. It drops what is answered with
RESOURCE_EXHAUSTED, as grpcio does at its own limits. So there is none on the number of requests, and that on their size
is the size of the queue, which a larger message can never enter.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # the package has no type hints

from otel_loopguard.cli.watch.address import cannot_listen
from otel_loopguard.cli.watch.live import MalformedError

if TYPE_CHECKING:
    from otel_loopguard.cli.watch.address import Address
    from otel_loopguard.cli.watch.live import LiveJudge

OPTION = "--otlp"
_SERVICE, _METHOD = "opentelemetry.proto.collector.trace.v1.TraceService", "Export"
_THREADS = 8
"""Each holds one message; the others wait in their connections."""
_GRACE_SECONDS = 5.0


class GrpcReceiver:
    """The OTLP service for traces."""

    def __init__(self, address: Address, judge: LiveJudge) -> None:
        """Take the address. Messages are taken after ``start``."""
        self._judge = judge
        options = [
            ("grpc.max_receive_message_length", judge.most_bytes),
            ("grpc.so_reuseport", 0),  # a second watcher at this port fails, instead of getting half of the spans
        ]
        self._server = grpc.server(ThreadPoolExecutor(_THREADS, "loopguard-watch-grpc"), options=options)
        # Without serialisers: bytes in, bytes out.
        handlers = {_METHOD: grpc.unary_unary_rpc_method_handler(self._export)}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        try:
            port = self._server.add_insecure_port(str(address) if address.host else f"[::]:{address.port}")
        except RuntimeError as error:
            raise cannot_listen(OPTION, address, "it is in use, or no address of this machine") from error
        self.address = address._replace(port=port)

    def start(self) -> None:
        """Take messages from now on."""
        self._server.start()

    def stop(self) -> None:
        """Take no more messages. Return when those that were being taken are answered."""
        self._server.stop(_GRACE_SECONDS).wait()

    def _export(self, payload: bytes, context: Any) -> bytes:
        try:
            if self._judge.take(payload):
                return b""  # an ExportTraceServiceResponse without a complaint
        except MalformedError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        context.abort(grpc.StatusCode.UNAVAILABLE, "the queue is full; send it again")
        raise AssertionError  # abort raises
