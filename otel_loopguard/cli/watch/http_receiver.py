"""Receive OTLP by HTTP, as protobuf and as JSON, and hand each message to the live judge.

If there is no room for a message, the answer is 503 with ``retry-after``: then a collector sends it again. Each
connection has a thread: exporters and collectors have few connections, and keep them open.
"""

from __future__ import annotations

import io
import time
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socket import AF_INET6, IPPROTO_IPV6, IPV6_V6ONLY, SHUT_WR
from socketserver import TCPServer, ThreadingMixIn
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

import orjson
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # the package has no type hints

from otel_loopguard.cli.watch.address import cannot_listen
from otel_loopguard.cli.watch.budget import QUIET_SECONDS, FullError, OverBudgetError
from otel_loopguard.cli.watch.http_connections import Connections, RequestReader
from otel_loopguard.cli.watch.otlp_messages import MalformedError, gunzip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_loopguard.cli.watch.address import ListenAddress
    from otel_loopguard.cli.watch.budget import Share
    from otel_loopguard.cli.watch.live import LiveJudge

OPTION = "--otlp-http"
RETRY_SECONDS = 2
"""After so long a sender may try again."""
PATH, LOGS = "/v1/traces", "/v1/logs"
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
MOST_CONNECTIONS = 256
_GRACE_SECONDS = 5.0
_LONGEST_LINE = 1_024
"""Bytes of a line with the size of a chunk."""
_MOST_DIGITS = 18
"""Digits of content-length."""
_UNKNOWN = -1
"""Stands for the unread bytes of a body whose length is not known."""
_PIECE = 65_536
"""The bytes that are read at once of a body that was refused."""
_INVALID, _UNAVAILABLE = 3, 14
"""Codes of gRPC. By OTLP the body of an error over HTTP has one, too."""


class HttpReceiver:
    """A server that takes traces and logs by OTLP over HTTP."""

    def __init__(
        self,
        address: ListenAddress,
        judge: LiveJudge,
        *,
        most_connections: int = MOST_CONNECTIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Bind the address, or raise ``LoopGuardError``."""
        try:
            self._server = _Server(address, judge, Connections(most_connections, clock), clock)
        except OSError as error:
            raise cannot_listen(OPTION, address, error.strerror or str(error)) from error
        self.address = address._replace(port=self._server.server_address[1])
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="loopguard-watch-http", daemon=True)

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more messages. Return when the ones in progress are answered, at most 5 seconds later."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()
        self._server.finish()


class _Server(ThreadingMixIn, TCPServer):
    daemon_threads = True
    block_on_close = False  # most connections are open, and idle
    allow_reuse_address = True  # the last watcher's connections may not be over yet
    request_queue_size = 128

    def __init__(
        self, address: ListenAddress, judge: LiveJudge, connections: Connections, clock: Callable[[], float]
    ) -> None:
        self.judge, self.connections, self.clock = judge, connections, clock
        judge.budget.make_room = connections.make_room
        self.is_over = False
        self._changed = Condition()
        self._answering = 0
        host = address.host
        if ":" in host:
            self.address_family = AF_INET6
        super().__init__((host, address.port), _Handler)

    def server_bind(self) -> None:
        """Bind the address; ``::`` stands for all addresses, those of IPv4 included."""
        if self.address_family == AF_INET6:
            self.socket.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a new connection. If there are too many, and none of them waits, close it."""
        if self.connections.add(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end, on its own thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self.judge.shield("watch.connection"):
                self.connections.remove(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write nothing to the terminal: the connection broke, which its client knows."""

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count an export as in progress during the block."""
        with self._changed:
            self._answering += 1
        try:
            yield
        finally:
            with self._changed:
                self._answering -= 1
                self._changed.notify_all()

    def finish(self) -> None:
        """Close connections after their next answer, and wait, at most 5 seconds, until all exports are answered."""
        self.is_over = True
        with self._changed:
            self._changed.wait_for(lambda: not self._answering, _GRACE_SECONDS)


class _RefusedError(Exception):
    """An export that is answered with this status and message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"  # connections stay open
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer leaves in one piece

    def setup(self) -> None:
        """Replace the reader by one with deadlines."""
        super().setup()
        self._connection = self.server.connections.get(self.request)
        self._reader = RequestReader(self.connection, self.server.clock)
        self.rfile.close()
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Wait for an export, and answer it."""
        self._reader.next_request()
        self._unread = 0
        super().handle_one_request()

    def do_POST(self) -> None:
        """Take a message, and answer whether it was taken."""
        with self.server.answering():
            try:
                self._take()
            except FullError:
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "there is no room for it now; send it again")
            except OverBudgetError as error:
                self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error))
            except MalformedError as error:
                self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            except _RefusedError as error:
                self._refuse(error.status, str(error))
            except OSError:
                raise  # the connection broke
            except Exception as error:  # noqa: BLE001 - see Shield.take
                self.server.judge.shield.take("watch.http", error)
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "it was not taken; send it again")
            else:
                self._answer(HTTPStatus.OK, b"{}" if self._is_json else b"")
        self._discard()

    def _take(self) -> None:
        judge, connections = self.server.judge, self.server.connections
        with judge.budget.share() as share:
            self._connection.share = share
            connections.waits(self._connection)
            try:
                with judge.counting():
                    body = self._body(share)
                connections.works(self._connection)
                path = self.path.partition("?")[0]
                if path not in {PATH, LOGS}:
                    known = f"traces and logs: send them to {PATH} and {LOGS}"
                    raise _RefusedError(HTTPStatus.NOT_FOUND, f"this is a receiver of {known}")
                if self._content_type not in {_PROTOBUF, _JSON}:
                    kinds = f"{_PROTOBUF} or {_JSON}"
                    raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"content-type must be {kinds}")
                with judge.counting():
                    body = self._unpacked(body, share)
                if not judge.take(body, is_json=self._is_json, is_logs=path == LOGS):
                    raise FullError
            finally:
                self._connection.share = None
                connections.waits(self._connection)

    @property
    def _content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def _is_json(self) -> bool:
        return self._content_type == _JSON

    def _body(self, share: Share) -> bytes:
        """Read the body. Its bytes are taken from the budget first."""
        self._reader.body()
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks(share)
        length = self.headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > _MOST_DIGITS:
            self._unread = _UNKNOWN
            raise MalformedError("content-length is no length")
        self._unread = int(length)
        share.resize(self._unread)
        body = self._read(self._unread)
        self._unread = 0
        return body

    def _chunks(self, share: Share) -> bytes:
        self._unread, body = _UNKNOWN, io.BytesIO()
        while size := self._size_of_chunk():
            share.resize(share.size + size)
            body.write(self._read(size))
            self._end_of_chunk()
        self._end_of_chunk()
        self._unread = 0
        return body.getvalue()

    def _size_of_chunk(self) -> int:
        digits = self.rfile.readline(_LONGEST_LINE).partition(b";")[0].strip()
        try:
            size = int(digits, 16)
        except ValueError:
            size = -1
        if size < 0:
            raise MalformedError("the size of a chunk is no number")
        return size

    def _end_of_chunk(self) -> None:
        while self.rfile.readline(_LONGEST_LINE).strip():  # the end of the chunk, or trailing headers
            pass

    def _read(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            # A part of a message must not be taken for the whole: it may be a valid message, too.
            raise TimeoutError if self._connection.dropped else ConnectionResetError
        return data

    def _discard(self) -> None:
        """Read the rest of a body that was refused: many senders read the answer only when they have sent all."""
        if self._unread == _UNKNOWN:  # closed at once, the connection would be reset, and the answer lost
            self.connection.shutdown(SHUT_WR)
            while self.rfile.read(_PIECE):
                pass
            return
        while self._unread and (piece := self.rfile.read(min(self._unread, _PIECE))):
            self._unread -= len(piece)

    def _unpacked(self, body: bytes, share: Share) -> bytes:
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding == "identity":
            return body
        if encoding != "gzip":
            raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "content-encoding must be gzip, or none")
        return gunzip(body, share)

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer with an error, as JSON if the message is JSON, else as protobuf."""
        if self._unread == _UNKNOWN or (self._unread and status is not HTTPStatus.SERVICE_UNAVAILABLE):
            self._unread, self.close_connection = _UNKNOWN, True
        code = _UNAVAILABLE if status is HTTPStatus.SERVICE_UNAVAILABLE else _INVALID
        if self._is_json:
            self._answer(status, orjson.dumps({"code": code, "message": message}))
        else:
            self._answer(status, Status(code=code, message=message).SerializeToString())

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        self.connection.settimeout(QUIET_SECONDS)
        self.send_response_only(status)
        self.send_header("content-type", _JSON if self._is_json else _PROTOBUF)
        self.send_header("content-length", str(len(body)))
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            self.send_header("retry-after", str(RETRY_SECONDS))
        if self.close_connection or self.server.is_over:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Write nothing to the terminal: exports are counted in metrics."""
