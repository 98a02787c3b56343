"""Receive OTLP by HTTP, as protobuf and as JSON, and hand each message to the live judge.

A full queue is answered with 503 and ``retry-after``: a collector tries again then. The server is that of the standard
library, with a thread for each connection: exporters and collectors have few of them, and keep them open.
"""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socket import AF_INET6, IPPROTO_IPV6, IPV6_V6ONLY, has_dualstack_ipv6
from socketserver import TCPServer, ThreadingMixIn
from threading import BoundedSemaphore, Condition, Thread
from typing import TYPE_CHECKING, Any

import orjson
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # the package has no type hints

from otel_loopguard.cli.watch.address import cannot_listen
from otel_loopguard.cli.watch.live import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.cli.watch.address import Address
    from otel_loopguard.cli.watch.live import LiveJudge

OPTION = "--otlp-http"
RETRY_SECONDS = 2
PATH = "/v1/traces"
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_MOST_CONNECTIONS = 256
_QUIET_SECONDS = 60.0
"""A connection without a request for so long is closed."""
_GRACE_SECONDS = 5.0
_LONGEST_LINE = 1_024
"""Of the sizes between the chunks of a body."""
_GZIP = 16 + zlib.MAX_WBITS
_INVALID, _UNAVAILABLE = 3, 14
"""Codes of gRPC: the body of an error has one, too."""


class HttpReceiver:
    """The endpoint for traces."""

    def __init__(self, address: Address, judge: LiveJudge) -> None:
        """Take the address. Messages are taken after ``start``."""
        try:
            self._server = _Server(address, judge)
        except OSError as error:
            raise cannot_listen(OPTION, address, error.strerror or str(error)) from error
        self.address = address._replace(port=self._server.server_address[1])
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="loopguard-watch-http", daemon=True)

    def start(self) -> None:
        """Take messages from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more messages. Return when those that were being taken are answered."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()
        self._server.finish()


class _Server(ThreadingMixIn, TCPServer):
    daemon_threads = True
    block_on_close = False  # most connections are open, and idle
    allow_reuse_address = True  # the last watcher's connections may not be over yet
    request_queue_size = 128

    def __init__(self, address: Address, judge: LiveJudge) -> None:
        self.judge = judge
        self.is_over = False
        self._free = BoundedSemaphore(_MOST_CONNECTIONS)
        self._changed = Condition()
        self._answering = 0
        host = address.host
        self._dual = not host and has_dualstack_ipv6()
        if self._dual or ":" in host:
            self.address_family = AF_INET6
        super().__init__((host, address.port), _Handler)

    def server_bind(self) -> None:
        """Bind, to IPv4 and IPv6 if no host was given."""
        if self._dual:
            self.socket.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection. One too many is closed, and its sender tries again."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write nothing: the connection broke, and its sender knows."""

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count a request until it is answered."""
        with self._changed:
            self._answering += 1
        try:
            yield
        finally:
            with self._changed:
                self._answering -= 1
                self._changed.notify_all()

    def finish(self) -> None:
        """Wait until all requests are answered, and end each connection after its answer."""
        self.is_over = True
        with self._changed:
            self._changed.wait_for(lambda: not self._answering, _GRACE_SECONDS)


class _RefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"  # connections stay open
    timeout = _QUIET_SECONDS
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer leaves in one piece

    def do_POST(self) -> None:
        """Take a message."""
        with self.server.answering():
            try:
                self._take()
            except _RefusedError as error:
                code = _UNAVAILABLE if error.status is HTTPStatus.SERVICE_UNAVAILABLE else _INVALID
                if error.status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                    self.close_connection = True  # the rest of the body was not read
                body = (
                    orjson.dumps({"code": code, "message": str(error)})
                    if self._is_json
                    else Status(code=code, message=str(error)).SerializeToString()
                )
                self._answer(error.status, body)
            else:
                self._answer(HTTPStatus.OK, b"{}" if self._is_json else b"")
            self.wfile.flush()

    def _take(self) -> None:
        body = self._body()
        if self.path.partition("?")[0] != PATH:
            raise _RefusedError(HTTPStatus.NOT_FOUND, f"only {PATH} is here: this is a receiver of traces")
        kind = self._content_type
        if kind not in {_PROTOBUF, _JSON}:
            raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"content-type must be {_PROTOBUF} or {_JSON}")
        try:
            taken = self.server.judge.take(self._unpacked(body), is_json=self._is_json)
        except MalformedError as error:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, str(error)) from error
        if not taken:
            raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "the queue is full; send it again")

    @property
    def _content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def _is_json(self) -> bool:
        return self._content_type == _JSON

    def _body(self) -> bytes:
        most = self.server.judge.most_bytes
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            return b"".join(self._chunks(most))
        length = self.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > most:
            raise _too_large(most)
        return self._read(int(length))

    def _chunks(self, most: int) -> Iterator[bytes]:
        while True:
            size = int(self.rfile.readline(_LONGEST_LINE).partition(b";")[0], 16)
            most -= size
            if size < 0 or most < 0:
                raise _too_large(self.server.judge.most_bytes)
            chunk = self._read(size)
            while self.rfile.readline(_LONGEST_LINE).strip():  # the end of the chunk, or trailing headers
                pass
            if not size:
                return
            yield chunk

    def _read(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            raise ConnectionResetError  # the part of a message may be a message, too
        return data

    def _unpacked(self, body: bytes) -> bytes:
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding == "identity":
            return body
        if encoding != "gzip":
            raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "content-encoding must be gzip, or none")
        most, unpacker = self.server.judge.most_bytes, zlib.decompressobj(_GZIP)
        try:
            unpacked = unpacker.decompress(body, most)
        except zlib.error as error:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the message is no gzip") from error
        if unpacker.unconsumed_tail:
            raise _too_large(most)
        if not unpacker.eof:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "the end of the gzip is missing")
        return unpacked

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response_only(status)
        self.send_header("content-type", _JSON if self._is_json else _PROTOBUF)
        self.send_header("content-length", str(len(body)))
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            self.send_header("retry-after", str(RETRY_SECONDS))
        if self.close_connection or self.server.is_over:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Write nothing: a request is counted."""


def _too_large(most: int) -> _RefusedError:
    return _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a message may have up to {most} bytes")
