"""The log of shared turns on a Redis or Valkey server, for threads and event loops. It never raises.

A call waits for at most twice the time-out of the store, however many steps it needs. After failures in a row a breaker
answers in the place of the server.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from hiredis import ReplyError

from otel_loopguard.errors import StoreError
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.shield import Shield
from otel_loopguard.store.failures import BREAKER_OPEN, OF_WRITES, QUEUE_FULL, failure_of
from otel_loopguard.store.later import Later
from otel_loopguard.store.pools import LoopPool, ThreadPool
from otel_loopguard.store.routing import Connect, UnavailableError, append, ask, servers_of
from otel_loopguard.store.script import arguments, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.guard.event_log import LogReply, Op
    from otel_loopguard.store.breaker import Breaker
    from otel_loopguard.store.connection import Command, Connection
    from otel_loopguard.store.routing import Steps
    from otel_loopguard.store.script import Arguments
    from otel_loopguard.store.seal import Seal
    from otel_loopguard.store.url import StoreUrl

logger = logging.getLogger("otel_loopguard")

_OF_CONNECTIONS = (OSError, ReplyError, UnicodeError)
"""Exceptions of a connection: a wrong password is a ``ReplyError``, a name with a long part a ``UnicodeError``."""
_EXPECTED = (*_OF_CONNECTIONS, UnavailableError)
"""Exceptions of a call that are no fault of this package."""
_LONGEST_FLUSH = 0.5


class RedisEventLog:
    """The logs of all shared turns, on the servers that a URL names. Connects at the first call."""

    def __init__(self, url: StoreUrl, seal: Seal, *, expiry: float) -> None:
        self.url, self.cipher = url, seal
        self.seal, self.unseal = seal.seal, seal.unseal
        self.shield = Shield()
        """Takes faults of this package; the runtime puts its own here."""
        self.count: Callable[[str], None] | None = None
        """Counts a failure of this kind, in addition to ``failures``."""
        self.failures: Counter[str] = Counter()
        """The number of calls that were answered with None, or dropped, by the kind of their failure."""
        self._expiry = expiry
        self._servers = servers_of(url)
        self._of_threads, self._of_loops = ThreadPool(url.tls), LoopPool(url.tls)
        self._later = Later(self._append_only)
        self._lock = threading.RLock()
        _logs.add(self)

    def __repr__(self) -> str:
        return f"RedisEventLog({str(self.url)!r})"

    def append(
        self, key: str, ops: Sequence[Op], *, epoch: bytes, seen: int, snapshot: tuple[int, bytes] | None = None
    ) -> LogReply | None:
        """Append events that are not in the log yet, and return those that the caller has not read. Blocks."""
        return self._append(key, self._arguments(ops, epoch, seen, snapshot), wrote=bool(ops))

    async def aappend(
        self, key: str, ops: Sequence[Op], *, epoch: bytes, seen: int, snapshot: tuple[int, bytes] | None = None
    ) -> LogReply | None:
        """Do the same as ``append`` without blocking the event loop."""
        breaker = self._servers.breaker(key)
        if not breaker.allows():
            self._count(BREAKER_OPEN)
            return None
        given, wrote = self._arguments(ops, epoch, seen, snapshot), bool(ops)
        try:
            reply = await self._arun(append(self._servers, key, given))
            self._succeeded(breaker, wrote=wrote)
            return parse(reply)
        except NotImplementedError:  # the default loop of Windows cannot wait for a socket
            return await asyncio.to_thread(self._append, key, given, wrote=wrote)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller goes on without the store
            pass_interrupt(error)
            self._failed(breaker, error)
            return None

    def send_later(self, key: str, ops: Sequence[Op], *, begins: bool = True) -> None:
        """Append events from another thread, for code that must not wait. ``begins``: also if the server has no log."""
        try:
            if not self._later.put(key, ops, begins=begins):
                self._count(QUEUE_FULL)
        except Exception as error:  # noqa: BLE001 - no thread can be started; the caller goes on
            self.shield.take("store.send_later", error)

    def ask(self, key: str, *commands: Command) -> list[Any]:
        """Run commands on the server that holds a log. For the doctor: raises ``StoreError`` with the reason."""
        try:
            return self._run(ask(self._servers, key, commands))
        except _EXPECTED as error:
            pass_interrupt(error)
            raise StoreError(failure_of(error, self.url.timeout).reason) from error

    def flush(self, seconds: float) -> bool:
        """Wait until the events of ``send_later`` are appended; return False if that takes longer."""
        return self._later.flush(seconds)

    def _append(self, key: str, given: Arguments, *, wrote: bool) -> LogReply | None:
        breaker = self._servers.breaker(key)
        if not breaker.allows():
            self._count(BREAKER_OPEN)
            return None
        try:
            reply = self._run(append(self._servers, key, given))
            self._succeeded(breaker, wrote=wrote)
            return parse(reply)
        except Exception as error:  # noqa: BLE001 - as in ``aappend``
            pass_interrupt(error)
            self._failed(breaker, error)
            return None

    def _append_only(self, key: str, ops: Sequence[Op], begins: bool) -> None:  # noqa: FBT001 - in the place of a lambda
        """Append events for which nobody waits."""
        self._append(key, self._arguments(ops, b"", 0 if begins else 1, None, answered=False), wrote=True)

    def _arguments(
        self, ops: Sequence[Op], epoch: bytes, seen: int, snapshot: tuple[int, bytes] | None, *, answered: bool = True
    ) -> Arguments:
        return arguments(ops, epoch=epoch, seen=seen, snapshot=snapshot, expiry=self._expiry, answered=answered)

    # --- the steps of a call, in a thread and in a task ---------------------------------------------------------------

    def _run(self, steps: Steps[list[Any]]) -> list[Any]:
        timeout = self.url.timeout
        last = time.monotonic() + 2 * timeout
        held: list[tuple[Connect, Connection]] = []
        result: Any = None
        try:
            step = next(steps)
            while True:
                deadline = min(time.monotonic() + timeout, last)
                try:
                    if isinstance(step, Connect):
                        result = self._of_threads.take(step, deadline)
                        held.append((step, result))
                    else:
                        result = step.peer.exchange(step.commands, deadline)
                except _OF_CONNECTIONS as error:
                    pass_interrupt(error)
                    self._of_threads.close(held[-1][0] if held else None)
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # a list, by the type of the steps
        finally:
            for made_by, connection in held:
                self._of_threads.give(made_by, connection)

    async def _arun(self, steps: Steps[list[Any]]) -> list[Any]:
        timeout = self.url.timeout
        last = time.monotonic() + 2 * timeout
        result: Any = None
        try:
            step = next(steps)
            while True:
                deadline = min(time.monotonic() + timeout, last)
                try:
                    if isinstance(step, Connect):
                        result = await self._of_loops.take(step, deadline)
                    else:
                        result = await step.peer.exchange(step.commands, deadline)
                except _OF_CONNECTIONS as error:
                    pass_interrupt(error)
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # as above

    # --- success and failure ------------------------------------------------------------------------------------------

    def _succeeded(self, breaker: Breaker, *, wrote: bool) -> None:
        if breaker.kind in OF_WRITES and not wrote:
            return
        seconds = breaker.succeeded()
        if seconds is not None:
            logger.warning(
                "The shared store %s answers again, after %.1f s: turns are shared again.", self.url, seconds
            )

    def _failed(self, breaker: Breaker, error: Exception) -> None:
        if not isinstance(error, _EXPECTED):
            self.shield.take("store.append", error)
            return
        failure = failure_of(error, self.url.timeout)
        self._count(failure.kind)
        if breaker.failed(failure.kind):
            logger.warning(
                "The shared store %s cannot be used: %s. Until it answers, each process judges by the calls that it "
                "knows. The store is tried again after pauses of up to 30 s.",
                self.url,
                failure.reason,
            )

    def _count(self, kind: str) -> None:
        with self._lock:
            self.failures[kind] += 1
        if self.count is not None:
            self.count(kind)

    def close(self) -> None:
        """Close the idle connections of threads; those of an event loop are closed with it."""
        self._of_threads.close()

    def after_fork(self) -> None:
        """Use new connections, locks and threads in a child process."""
        self._lock = threading.RLock()
        for breaker in self._servers.breakers():
            breaker.after_fork()
        self.close()
        self._of_loops = LoopPool(self.url.tls)
        self._later.after_fork()


_logs: WeakSet[RedisEventLog] = WeakSet()
"""The logs of this process."""


def _after_fork() -> None:
    for log in list(_logs):
        log.after_fork()


@atexit.register
def _close() -> None:
    for log in list(_logs):
        log.flush(_LONGEST_FLUSH)
        log.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
