"""A connection to one server, for one thread at a time: made, logged in, and used for commands.

The package talks to the server itself, with hiredis as its parser, instead of through a client library. An append is
one command, and everything about it has to be bounded: no look-up of a name in the caller's thread, no retries, one
deadline for all steps. Client libraries are also pinned by programs, and patched by instrumentations, whose spans would
be in the user's traces.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any
from weakref import finalize

from hiredis import ProtocolError, Reader, ReplyError, pack_command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from otel_loopguard.store.url import Address, Login, Tls

    Command: TypeAlias = "tuple[str | int | bytes, ...]"

_PIECE = 65_536
_ID_SIZE = 8
_LEAST_WAIT, _LONGEST_WAIT = 0.001, 60.0
_LONGEST_CONNECT = 1.0
"""A connection that takes longer than its caller waits is kept for the next call, up to this time."""


class Connection:
    """A connection that is ready for commands."""

    def __init__(self, opened: socket.socket) -> None:
        self.socket = opened
        # Not ``__del__``: in a cycle the socket would be found first, and Python would warn that it was not closed. Not
        # at the end of the program either, when waiting events are appended.
        finalize(self, opened.close).atexit = False
        self.reader = Reader()
        self.server_id = bytes(_ID_SIZE)
        """Identifies the process of the server; zeros if the user may not ask for it."""
        self.was_used = False
        self.in_exchange = False
        """True after an exchange that was broken off: a reply may still come."""

    def log_in(self, login: Login, database: int, deadline: float) -> None:
        """Send the password, choose the database and ask for the id of the server, in one round trip."""
        commands: list[Command] = [("INFO", "server")]
        if database:
            commands.insert(0, ("SELECT", database))
        if login.password is not None:
            given = (login.username, login.password) if login.username else (login.password,)
            commands.insert(0, ("AUTH", *given))
        *needed, info = self.exchange(commands, deadline)
        for reply in (*needed, info):
            if isinstance(reply, ReplyError) and (reply is not info or str(reply).startswith("NOAUTH")):
                raise reply
        if isinstance(info, bytes):
            run_id = fields_of(info).get("run_id", "").encode()
            self.server_id = hashlib.blake2b(run_id, digest_size=_ID_SIZE).digest()

    def exchange(self, commands: Sequence[Command], deadline: float) -> list[Any]:
        """Send commands and return their replies, errors of the server among them; else raise ``OSError``."""
        self.in_exchange = True
        replies: list[Any] = []
        self._wait_until(deadline)
        self.socket.sendall(packed(commands))
        while len(replies) < len(commands):
            self._wait_until(deadline)
            replies += read(self.reader, self.socket.recv(_PIECE))
        if len(replies) > len(commands):
            raise ConnectionAbortedError("a reply to nothing")
        self.was_used, self.in_exchange = True, False
        return replies

    def _wait_until(self, deadline: float) -> None:
        self.socket.settimeout(min(max(deadline - time.monotonic(), _LEAST_WAIT), _LONGEST_WAIT))

    def close(self) -> None:
        """Close the socket. In a child process that leaves the connection of the parent open."""
        self.socket.close()


def connect(address: Address, login: Login, database: int, tls: Tls | None) -> Connection:
    """Make a connection, which may take many seconds if a name has to be looked up, and one second after that."""
    connection = Connection(_open(address, tls))
    connection.log_in(login, database, time.monotonic() + _LONGEST_CONNECT)
    connection.was_used = False
    return connection


def packed(commands: Sequence[Command]) -> bytes:
    """Return the bytes of commands."""
    return b"".join([pack_command(command) for command in commands])  # type: ignore[arg-type]  # its hint has one part only


def read(reader: Reader, piece: bytes) -> list[Any]:
    """Return the replies that are complete with the next piece of what a server sends."""
    if not piece:
        raise ConnectionResetError("the server closed the connection")
    try:
        reader.feed(piece)
        replies = []
        while (reply := reader.gets()) is not False:  # a number 0 is a reply
            replies.append(reply)
    except ProtocolError:
        raise ConnectionAbortedError("this is no server of Redis or Valkey") from None
    return replies


def fields_of(info: bytes) -> dict[str, str]:
    """Read the reply of INFO."""
    return dict(line.partition(":")[::2] for line in info.decode("utf-8", "replace").split("\r\n"))


def _open(address: Address, tls: Tls | None) -> socket.socket:
    if address.port is None:
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            opened.settimeout(_LONGEST_CONNECT)
            opened.connect(address.host)
        except BaseException:
            opened.close()
            raise
        return opened
    opened = socket.create_connection((address.host, address.port), _LONGEST_CONNECT)
    try:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return opened if tls is None else _secured(opened, address.host, tls)
    except BaseException:
        opened.close()
        raise


def _secured(opened: socket.socket, host: str, tls: Tls) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=tls.ca_certs)
    context.check_hostname = tls.check_hostname
    if not tls.verify:
        context.verify_mode = ssl.CERT_NONE
    if tls.certfile is not None:
        context.load_cert_chain(tls.certfile, tls.keyfile)
    return context.wrap_socket(opened, server_hostname=host)
