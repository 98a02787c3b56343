"""Receive OTLP by gRPC, and hand each message to the live judge.

If there is no room for a message, it is answered with UNAVAILABLE: a collector tries again then. It drops what is
answered with RESOURCE_EXHAUSTED, as grpcio does at its own limits. So there is none on the number of requests.

The library reads a message before its size is known here. So a few are read at once, and each may have that part of the
budget. It is told not to unpack them, as it would do without a limit.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # the package has no type hints

from otel_loopguard.cli.watch.address import cannot_listen
from otel_loopguard.cli.watch.budget import PATIENCE_SECONDS, QUIET_SECONDS, REQUEST_SECONDS, FullError, OverBudgetError
from otel_loopguard.cli.watch.live import MalformedError
from otel_loopguard.cli.watch.unpack import gunzip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_loopguard.cli.watch.address import ListenAddress
    from otel_loopguard.cli.watch.budget import Share
    from otel_loopguard.cli.watch.live import LiveJudge

OPTION = "--otlp"
THREADS = 8
"""Each reads one message; the others wait in their connections."""
_SERVICE, _METHOD = "opentelemetry.proto.collector.trace.v1.TraceService", "Export"
_GRACE_SECONDS = 5.0
_TICK_SECONDS = 0.5
_HANDSHAKE_MILLISECONDS = 10_000
_GZIP_OR_NONE = 0b101
"""A bit for each of none, deflate and gzip."""
_GZIP_BEGIN = b"\x1f\x8b"
"""No protobuf message begins so."""


class _Requests:
    """The requests whose message is being read, the oldest first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reading: OrderedDict[Any, float] = OrderedDict()
        self._lock = Lock()

    def read(self, messages: Iterator[bytes], context: Any) -> bytes | None:
        """Return the first message of a request; None if it has none. Raise ``TimeoutError`` if it was dropped."""
        with self._lock:
            self._reading[context] = self._clock()
        try:
            return next(messages, None)
        except grpc.RpcError:
            return None  # it was cancelled: nobody waits for an answer
        finally:
            with self._lock:
                was_dropped = self._reading.pop(context, None) is None
            if was_dropped:
                raise TimeoutError

    @property
    def reading_now(self) -> int:
        """The number of messages that are being read."""
        return len(self._reading)

    def drop_slow(self) -> None:
        """Drop the requests that take too long."""
        with self._lock:
            most = PATIENCE_SECONDS if len(self._reading) >= THREADS else REQUEST_SECONDS
            slow = [one for one, since in self._reading.items() if self._clock() - since >= most]
            for one in slow:
                del self._reading[one]
        for one in slow:
            one.cancel()


class GrpcReceiver:
    """The OTLP service for traces."""

    def __init__(
        self,
        address: ListenAddress,
        judge: LiveJudge,
        *,
        quiet: float = QUIET_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the address. Messages are taken after ``start``. ``quiet`` is for connections without a request."""
        self._judge = judge
        self.requests = _Requests(clock)
        self._over = Event()
        self._dropping = Thread(target=self._drop_slow, name="loopguard-watch-grpc-slow", daemon=True)
        options = [
            ("grpc.max_receive_message_length", judge.budget.most // THREADS),
            ("grpc.max_connection_idle_ms", int(quiet * 1_000)),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MILLISECONDS),
            ("grpc.per_message_decompression", 0),
            ("grpc.http2.bdp_probe", 0),  # it lets senders fill megabytes for each request that waits
            ("grpc.compression_enabled_algorithms_bitset", _GZIP_OR_NONE),
            ("grpc.so_reuseport", 0),  # a second watcher at this port fails, instead of getting half of the spans
        ]
        self._server = grpc.server(ThreadPoolExecutor(THREADS, "loopguard-watch-grpc"), options=options)
        # Without serialisers: bytes in, bytes out. A stream of one message can be dropped while it is read.
        handlers = {_METHOD: grpc.stream_unary_rpc_method_handler(self._export)}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        try:
            port = self._server.add_insecure_port(str(address))
        except RuntimeError as error:
            raise cannot_listen(OPTION, address, "it is in use, or no address of this machine") from error
        self.address = address._replace(port=port)

    def start(self) -> None:
        """Take messages from now on."""
        self._server.start()
        self._dropping.start()

    def stop(self) -> None:
        """Take no more messages. Return when those that were being taken are answered."""
        self._server.stop(_GRACE_SECONDS).wait()
        self._over.set()

    def _drop_slow(self) -> None:
        while not self._over.wait(_TICK_SECONDS):
            self.requests.drop_slow()

    def _export(self, messages: Iterator[bytes], context: Any) -> bytes:
        try:
            with self._judge.budget.share() as share:
                with self._judge.counting():
                    payload = self._read(messages, context, share)
                if self._judge.take(payload):
                    return b""  # an ExportTraceServiceResponse without a complaint
        except MalformedError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except OverBudgetError as error:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        except TimeoutError:
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the message came too slowly; send it again")
        except FullError:
            pass  # as if it was not taken
        except Exception as error:  # noqa: BLE001 - grpcio would log its text
            self._judge.shield.take("watch.grpc", error)
        context.abort(grpc.StatusCode.UNAVAILABLE, "there is no room for it now; send it again")
        raise AssertionError  # abort raises

    def _read(self, messages: Iterator[bytes], context: Any, share: Share) -> bytes:
        payload = self.requests.read(messages, context)
        if payload is None:
            raise MalformedError("a message is missing")
        share.resize(len(payload))
        return gunzip(payload, share) if payload.startswith(_GZIP_BEGIN) else payload
