"""Receive OTLP by gRPC, and hand each message to the live judge.

If there is no room for a message, the answer is UNAVAILABLE: then a collector sends it again. The library reads a
message before its size is known here, so only ``THREADS`` messages are read at once, each of at most that part of the
budget. It is told not to unpack them, which it would do without a limit.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # the package has no type hints

from otel_loopguard.cli.watch.address import cannot_listen
from otel_loopguard.cli.watch.budget import PATIENCE_SECONDS, QUIET_SECONDS, REQUEST_SECONDS, FullError, OverBudgetError
from otel_loopguard.cli.watch.otlp_messages import MalformedError, gunzip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_loopguard.cli.watch.address import ListenAddress
    from otel_loopguard.cli.watch.budget import Share
    from otel_loopguard.cli.watch.live import LiveJudge

OPTION = "--otlp"
THREADS = 8
"""Messages that are read at once; others wait in their connections."""
_SERVICES = {
    "opentelemetry.proto.collector.trace.v1.TraceService": False,
    "opentelemetry.proto.collector.logs.v1.LogsService": True,
}
"""The services, and whether they take log records."""
_GRACE_SECONDS = 5.0
_TICK_SECONDS = 0.5
_HANDSHAKE_MILLISECONDS = 10_000
_GZIP_OR_NONE = 0b101
"""One bit for no compression, one for gzip; the bit between them is deflate."""
_GZIP_BEGIN = b"\x1f\x8b"
"""The first bytes of gzip. No message of protobuf begins like that."""


class _ExportsInProgress:
    """The exports whose message is being read, the oldest first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reading: OrderedDict[Any, float] = OrderedDict()
        self._lock = Lock()

    def read(self, messages: Iterator[bytes], context: Any) -> bytes | None:
        """Return the message of an export; None if it has none, or was cancelled. ``TimeoutError``: it was dropped."""
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
        """Cancel the exports that take too long; sooner if all threads are reading."""
        with self._lock:
            most = PATIENCE_SECONDS if len(self._reading) >= THREADS else REQUEST_SECONDS
            slow = [one for one, since in self._reading.items() if self._clock() - since >= most]
            for one in slow:
                del self._reading[one]
        for one in slow:
            one.cancel()


class GrpcReceiver:
    """A server that takes traces and logs by OTLP over gRPC."""

    def __init__(
        self,
        address: ListenAddress,
        judge: LiveJudge,
        *,
        quiet: float = QUIET_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Bind the address, or raise ``LoopGuardError``. A connection that is idle for ``quiet`` seconds is closed."""
        self._judge = judge
        self.requests = _ExportsInProgress(clock)
        self._over = Event()
        self._dropping = Thread(target=self._drop_slow, name="loopguard-watch-grpc-slow", daemon=True)
        options = [
            ("grpc.max_receive_message_length", judge.budget.most // THREADS),
            ("grpc.max_connection_idle_ms", int(quiet * 1_000)),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MILLISECONDS),
            ("grpc.per_message_decompression", 0),
            ("grpc.http2.bdp_probe", 0),  # with it senders may fill megabytes for each export that waits
            ("grpc.compression_enabled_algorithms_bitset", _GZIP_OR_NONE),
            ("grpc.so_reuseport", 0),  # a second watcher at this port fails, instead of getting half of the spans
        ]
        self._server = grpc.server(ThreadPoolExecutor(THREADS, "loopguard-watch-grpc"), options=options)
        # Without serialisers: bytes in, bytes out. A stream of one message can be cancelled while it is read.
        for service, is_logs in _SERVICES.items():
            handlers = {"Export": grpc.stream_unary_rpc_method_handler(partial(self._export, is_logs=is_logs))}
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        try:
            port = self._server.add_insecure_port(str(address))
        except RuntimeError as error:
            raise cannot_listen(OPTION, address, "it is in use, or no address of this machine") from error
        self.address = address._replace(port=port)

    def start(self) -> None:
        """Serve from now on."""
        self._server.start()
        self._dropping.start()

    def stop(self) -> None:
        """Take no more messages. Return when the ones in progress are answered, at most 5 seconds later."""
        self._server.stop(_GRACE_SECONDS).wait()
        self._over.set()

    def _drop_slow(self) -> None:
        while not self._over.wait(_TICK_SECONDS):
            self.requests.drop_slow()

    def _export(self, messages: Iterator[bytes], context: Any, *, is_logs: bool) -> bytes:
        try:
            with self._judge.budget.share() as share:
                with self._judge.counting():
                    payload = self._read(messages, context, share)
                if self._judge.take(payload, is_logs=is_logs):
                    return b""  # a response without a complaint
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
