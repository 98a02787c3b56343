"""Serve the judge to hooks: by HTTP on a Unix socket of its user, and on a loopback port for programs with HTTP hooks.

``POST /PROGRAM/EVENT`` with the JSON of a hook; the body of the answer is the JSON that the program reads. On the port
the path begins with a token, because every user of the machine can connect to it. Whatever is wrong with a request, it
is answered with status 200 and nothing in it: a hook that fails must not stop a tool.
"""

from __future__ import annotations

import hmac
import logging
import os
import socket
import struct
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer, TCPServer, ThreadingMixIn, UnixStreamServer
from threading import Thread
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import orjson

from otel_loopguard.hooks.interrupt import interrupt
from otel_loopguard.hooks.programs import programs
from otel_loopguard.hooks.rehearsal import REHEARSAL

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from otel_loopguard.hooks.judge import Judge

logger = logging.getLogger("otel_loopguard")

MOST_BYTES: Final = 32 * 1024 * 1024
"""The longest body that is read. A result of a tool may be long."""
_PATIENCE: Final = 5.0
"""Seconds that a request may take to come."""


class HookServer:
    """The two servers of one judge."""

    def __init__(self, judge: Judge, path: Path, token: str, port: int | None = None) -> None:
        """Bind a new socket at the path, for its owner only, and this port of the loopback; 0 is any that is free.

        A port that is taken is left out, which is logged. Raise ``OSError`` if the socket cannot be bound.
        """
        self.last_used = time.monotonic()
        self._judge = judge
        self._rehearsal: tuple[object, Judge] = (None, judge)
        """The last rehearsal, and its judge."""
        before = os.umask(0o177)
        try:
            self._unix = _UnixServer(str(path), _Handler)
        finally:
            os.umask(before)
        self._path = path
        self._servers: list[_Server] = [self._unix]
        self.port = 0
        """The loopback port; 0 if none is served."""
        if port is not None:
            with suppress(OSError):
                tcp = _TcpServer(("127.0.0.1", port), _Handler)
                tcp.token = token
                self._servers.append(tcp)
                self.port = int(tcp.server_address[1])
            if not self.port:
                logger.warning("Port %s is taken: hooks by HTTP have no answer, and their calls run.", port)
        for server in self._servers:
            server.owner = self

    def start(self) -> None:
        """Serve from now on."""
        for server in self._servers:
            Thread(target=server.serve_forever, args=(0.1,), name="loopguard-hooks", daemon=True).start()

    def judge_of(self, told: Mapping[str, Any]) -> Judge:
        """Return the judge of a hook. A rehearsal has one that leaves no trace, under the policy of now."""
        name = told.get(REHEARSAL)
        if name is None:
            return self._judge
        if self._rehearsal[0] != name:
            self._rehearsal = (name, self._judge.silent())
        return self._rehearsal[1]

    def stop(self) -> None:
        """Take no more hooks, and remove the socket."""
        for server in self._servers:
            server.shutdown()
            server.server_close()
        with suppress(OSError):
            self._path.unlink()


class _Server(ThreadingMixIn, BaseServer):
    daemon_threads = True
    owner: HookServer
    token = ""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a program that was ended has closed its connection."""


class _UnixServer(_Server, UnixStreamServer):
    request_queue_size = 128

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 - the signature of the base
        """Return True for a process of the same user. Other systems have the permissions of the socket alone."""
        if not hasattr(socket, "SO_PEERCRED"):
            return True
        credentials = request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return bool(struct.unpack("3i", credentials)[1] == os.getuid())


class _TcpServer(_Server, TCPServer):
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE
    server: Any

    def do_POST(self) -> None:
        """Answer a hook."""
        body, ends = b"", False
        try:
            size = int(self.headers.get("content-length") or 0)
            if size <= MOST_BYTES:
                body, ends = self._answer(self.rfile.read(size))
            else:
                self.close_connection = True
        except ValueError:
            self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if ends and self._interrupts:
            self.wfile.flush()
            interrupt(int(self._interrupts[0]))

    @property
    def _interrupts(self) -> list[str]:
        """The process that gets the signal; empty if none does."""
        return parse_qs(self.path.partition("?")[2]).get("interrupt", [])

    def _answer(self, body: bytes) -> tuple[bytes, bool]:
        *before, name, event = ["", "", *self.path.partition("?")[0].strip("/").split("/")]
        token = before[-1] if before else ""
        program = programs().get(name)
        if program is None or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            return b"", False
        told = orjson.loads(body)
        if not isinstance(told, dict):
            return b"", False
        self.server.owner.last_used = time.monotonic()
        name = str(told.get("hook_event_name") or event)
        judge = self.server.owner.judge_of(told)
        answer = judge.answer(program, name, told, interrupts=bool(self._interrupts))
        return orjson.dumps(answer.body) if answer.body else b"", answer.ends and REHEARSAL not in told

    def address_string(self) -> str:
        """Return the peer: a Unix socket has none."""
        return "local"

    def log_message(self, *_: object) -> None:
        """Log nothing."""
