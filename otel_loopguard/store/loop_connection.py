"""The connections of event loops. All tasks of a loop share one connection to a server; its replies come in order.

A connection is made by a thread and handed to its loop when it is ready. So no name is looked up and no handshake is
made on a loop, and none needs its executor, which the program may be using up. It belongs to its loop: only the loop's
selector holds it, so it is closed with the loop.
"""

from __future__ import annotations

import ssl
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.store.connection import packed, read

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Sequence

    from otel_loopguard.store.connection import Command, Connection

_PIECE = 65_536
_TRY_LATER = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class LoopConnection:
    """A connection for the tasks of one event loop."""

    def __init__(self, loop: AbstractEventLoop, made: Connection) -> None:
        self.server_id, self.was_used = made.server_id, False
        self.closed = False
        self._loop, self._made, self._socket, self._reader = loop, made, made.socket, made.reader
        self._waiting: deque[_Waiting] = deque()
        self._unsent = bytearray()
        self._blocked = False
        self._socket.setblocking(False)  # noqa: FBT003 - of the standard library
        loop.add_reader(self._socket.fileno(), self._read)

    async def exchange(self, commands: Sequence[Command], deadline: float) -> list[Any]:
        """Send commands and return their replies. A task that is cancelled leaves its replies to be dropped here."""
        if self.closed:
            raise ConnectionResetError("the connection was closed")
        waiting = _Waiting(self._loop, len(commands))
        self._waiting.append(waiting)
        self._unsent += packed(commands)
        self._write()
        timer = self._loop.call_later(max(deadline - time.monotonic(), 0.0), self._expire, waiting)
        try:
            return await waiting.future
        finally:
            timer.cancel()
            self.was_used = True

    def _write(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
            del self._unsent[:sent]
        except _TRY_LATER:
            pass
        except OSError as error:
            pass_interrupt(error)
            self.close(error)
            return
        if bool(self._unsent) is not self._blocked:
            self._blocked = not self._blocked
            change = self._loop.add_writer if self._blocked else self._loop.remove_writer
            change(self._socket.fileno(), *([self._write] if self._blocked else []))

    def _read(self) -> None:
        try:
            while True:
                for reply in read(self._reader, self._socket.recv(_PIECE)):
                    self._deliver(reply)
        except _TRY_LATER:
            pass
        except OSError as error:
            pass_interrupt(error)
            self.close(error)

    def _deliver(self, reply: Any) -> None:
        if not self._waiting:
            raise ConnectionAbortedError("a reply to nothing")
        first = self._waiting[0]
        first.replies.append(reply)
        if len(first.replies) == first.count:
            self._waiting.popleft()
            if not first.future.done():
                first.future.set_result(first.replies)

    def _expire(self, waiting: _Waiting) -> None:
        """End the connection, unless the reply is there: a loop that was blocked may call this before ``_read``."""
        if not self.closed:
            self._read()
        if not waiting.future.done():
            self.close(TimeoutError("no answer in time"))

    def close(self, error: Exception) -> None:
        """Close the connection; all that wait for a reply get the error."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._made.close()
        for waiting in self._waiting:
            if not waiting.future.done():
                waiting.future.set_exception(error)
        self._waiting.clear()


class _Waiting:
    """A task that waits for replies, and those that have come."""

    __slots__ = ("count", "future", "replies")

    def __init__(self, loop: AbstractEventLoop, count: int) -> None:
        self.count = count
        self.future: Future[list[Any]] = loop.create_future()
        self.replies: list[Any] = []
