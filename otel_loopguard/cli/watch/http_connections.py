"""Bound the connections of the HTTP receiver: each has a deadline, and a waiting one is closed for a new one.

A connection waits while the receiver waits for its client: between exports, and until an export is read. A client whose
connection was closed sends its message again.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from contextlib import suppress
from socket import SHUT_RDWR
from threading import Lock
from typing import TYPE_CHECKING

from otel_loopguard.cli.watch.budget import PATIENCE_SECONDS, QUIET_SECONDS, REQUEST_SECONDS

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from otel_loopguard.cli.watch.budget import Share

MOST_HEADER = 32_768
"""The bytes of a request line and its headers."""


class Connection:
    """A connection, with the share of the budget of the export on it."""

    __slots__ = ("dropped", "share", "socket")

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.share: Share | None = None
        self.dropped = False


class Connections:
    """The open connections, and the time since which each of them waits."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most, self._clock = most, clock
        self._open: dict[socket.socket, Connection] = {}
        self._waiting: OrderedDict[Connection, float] = OrderedDict()
        """The time of the clock, in seconds, at which a connection began to wait; the longest wait first."""
        self._lock = Lock()

    def add(self, sock: socket.socket) -> bool:
        """Add a connection. If there are too many, close the one that waits longest; return False if none waits."""
        with self._lock:
            if len(self._open) >= self._most:
                if not self._waiting:
                    return False
                self._drop(next(iter(self._waiting)))
            self._open[sock] = made = Connection(sock)
            self._waiting[made] = self._clock()
        return True

    def get(self, sock: socket.socket) -> Connection:
        """Return the connection of a socket. If it was closed, return a new one: its thread finds out by reading."""
        return self._open.get(sock) or Connection(sock)

    def remove(self, sock: socket.socket) -> None:
        """Forget the connection of a socket that is closed."""
        with self._lock:
            found = self._open.pop(sock, None)
            if found is not None:
                self._waiting.pop(found, None)

    def waits(self, one: Connection) -> None:
        """Note that a connection waits for its client from now on."""
        with self._lock:
            if one.socket in self._open:
                self._waiting[one] = self._clock()
                self._waiting.move_to_end(one)

    def works(self, one: Connection) -> None:
        """Note that a connection does not wait any more. Raise ``ConnectionResetError`` if it was closed before."""
        with self._lock:
            if self._waiting.pop(one, None) is None:
                raise ConnectionResetError

    def make_room(self, missing: int) -> bool:
        """Drop the slow exports, the oldest first, until so many bytes are free. Return False if they have too few."""
        with self._lock:
            chosen, latest = [], self._clock() - PATIENCE_SECONDS
            for one, since in self._waiting.items():
                if missing <= 0 or since > latest:
                    break
                size = 0 if one.share is None else one.share.size
                if size:
                    chosen.append(one)
                    missing -= size
            if missing > 0:
                return False
            for one in chosen:
                self._drop(one)
            return True

    def _drop(self, one: Connection) -> None:
        del self._waiting[one], self._open[one.socket]
        one.dropped = True
        with suppress(OSError):
            one.socket.shutdown(SHUT_RDWR)  # its thread reads the end


class RequestReader(io.RawIOBase):
    """Reads exports from a socket, each within ``REQUEST_SECONDS``, and its headers within ``MOST_HEADER`` bytes."""

    def __init__(self, sock: socket.socket, clock: Callable[[], float]) -> None:
        super().__init__()
        self._socket, self._clock = sock, clock
        self._deadline: float | None = None
        self._header_left: int | None = MOST_HEADER

    def next_request(self) -> None:
        """Wait for an export from now on, ``QUIET_SECONDS`` at most."""
        self._deadline, self._header_left = None, MOST_HEADER

    def body(self) -> None:
        """Read the body from now on. Its size is not bounded here."""
        self._header_left = None

    def readable(self) -> bool:
        """Return True, as ``BufferedReader`` asks."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # BufferedReader has no other buffer
        """Read what has arrived, and return the number of bytes.

        Raise ``TimeoutError`` at the deadline, ``ConnectionResetError`` if the headers are too large.
        """
        if self._header_left is not None:
            if not self._header_left:
                raise ConnectionResetError
            buffer = buffer[: self._header_left]
        left = QUIET_SECONDS if self._deadline is None else self._deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        size = self._socket.recv_into(buffer)
        if self._header_left is not None:
            self._header_left -= size
        if self._deadline is None:
            self._deadline = self._clock() + REQUEST_SECONDS
        return size
