"""Keep the connections of the HTTP receiver bounded: each has a deadline, and the oldest that waits makes room.

A connection waits while the receiver has nothing to do but to wait for its client: between requests, and until a
request is read. A client that was dropped sees a closed connection, and sends its message again.
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
    """A connection, and the share of the budget that the request on it has."""

    __slots__ = ("dropped", "share", "socket")

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.share: Share | None = None
        self.dropped = False


class Connections:
    """The open connections, and since when each of them waits."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most, self._clock = most, clock
        self._open: dict[socket.socket, Connection] = {}
        self._waiting: OrderedDict[Connection, float] = OrderedDict()
        """The one that waits for the longest time is the first."""
        self._lock = Lock()

    def add(self, sock: socket.socket) -> bool:
        """Add a connection, in the place of the oldest that waits if there are too many. Return False if none waits."""
        with self._lock:
            if len(self._open) >= self._most:
                if not self._waiting:
                    return False
                self._drop(next(iter(self._waiting)))
            self._open[sock] = made = Connection(sock)
            self._waiting[made] = self._clock()
        return True

    def get(self, sock: socket.socket) -> Connection:
        """Return a connection; a new one if it was dropped, so that its thread finds out when it reads."""
        return self._open.get(sock) or Connection(sock)

    def remove(self, sock: socket.socket) -> None:
        """Forget a connection that is over."""
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
        """Note that the message of a connection is taken now. Raise an error if it was dropped before."""
        with self._lock:
            if self._waiting.pop(one, None) is None:
                raise ConnectionResetError

    def make_room(self, missing: int) -> bool:
        """Drop the oldest requests that are read slowly, for so many bytes. Drop none if they have too few."""
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
    """Reads requests from a socket, each within its time, and its headers within their size."""

    def __init__(self, sock: socket.socket, clock: Callable[[], float]) -> None:
        super().__init__()
        self._socket, self._clock = sock, clock
        self._deadline: float | None = None
        self._header_left: int | None = MOST_HEADER

    def next_request(self) -> None:
        """Begin to wait for a request."""
        self._deadline, self._header_left = None, MOST_HEADER

    def body(self) -> None:
        """Begin with the body, whose size others limit."""
        self._header_left = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # BufferedReader has no other buffer
        """Read what is there. Raise an error at the deadline, and at the end of the space for headers."""
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
