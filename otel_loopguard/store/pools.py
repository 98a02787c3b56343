"""The connections of a store: idle ones for threads, and one for each event loop. They are made in the background.

A connection is made by a thread of its own, because to look up a name may take many seconds and cannot be interrupted.
A caller waits for it as long as for an answer. A connection that comes later serves the next call.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.store.connection import Connection, connect
from otel_loopguard.store.loop_connection import LoopConnection

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from otel_loopguard.store.routing import Connect
    from otel_loopguard.store.url import Tls

_MOST_IDLE = 64


def _connect(step: Connect, tls: Tls | None, deliver: Callable[[Connection | Exception], None]) -> None:
    """Make a connection in the background, and deliver it or the error."""

    def make() -> None:
        try:
            made: Connection | Exception = connect(step.address, step.login, step.database, tls)
        except Exception as error:  # noqa: BLE001 - whoever waits for the connection gets the error
            pass_interrupt(error)
            made = error
        deliver(made)

    threading.Thread(target=make, name="loopguard-store-connect", daemon=True).start()


class ThreadPool:
    """The idle connections of threads. A thread has one to itself during a call."""

    def __init__(self, tls: Tls | None) -> None:
        self._tls = tls
        self._idle: dict[Connect, list[Connection]] = {}

    def take(self, step: Connect, deadline: float) -> Connection:
        """Return an idle connection or a new one."""
        with suppress(IndexError):
            return self._idle.setdefault(step, []).pop()
        coming: Future[Connection] = Future()

        def deliver(made: Connection | Exception) -> None:
            if not coming.set_running_or_notify_cancel():
                if isinstance(made, Connection):
                    self.give(step, made)
            elif isinstance(made, Connection):
                coming.set_result(made)
            else:
                coming.set_exception(made)

        _connect(step, self._tls, deliver)
        wait([coming], max(deadline - time.monotonic(), 0.0))
        if coming.cancel():
            raise TimeoutError("no connection in time")
        return coming.result()

    def give(self, step: Connect, connection: Connection) -> None:
        """Keep a connection for the next call, unless its last exchange was broken off."""
        idle = self._idle.setdefault(step, [])
        if len(idle) < _MOST_IDLE and not connection.in_exchange:
            idle.append(connection)
        else:
            connection.close()

    def close(self, step: Connect | None = None) -> None:
        """Close the idle connections of a server that has closed one of them, or all."""
        for one in [step] if step is not None else list(self._idle):
            for connection in self._idle.pop(one, []):
                connection.close()


class LoopPool:
    """The connection of each event loop to each server."""

    def __init__(self, tls: Tls | None) -> None:
        self._tls = tls
        self._loops: WeakKeyDictionary[AbstractEventLoop, _OfLoop] = WeakKeyDictionary()

    async def take(self, step: Connect, deadline: float) -> LoopConnection:
        """Return the connection of the running loop, or a new one."""
        loop = asyncio.get_running_loop()
        of_loop = self._loops.get(loop)
        if of_loop is None:
            of_loop = self._loops[loop] = _OfLoop()
        known = of_loop.ready.get(step)
        connection = None if known is None else known()
        if connection is not None and not connection.closed:
            return connection
        coming = of_loop.coming.get(step)
        if coming is None:
            coming = of_loop.coming[step] = loop.create_future()
            _connect(step, self._tls, partial(of_loop.deliver, loop, step))
        await asyncio.wait([coming], timeout=max(deadline - time.monotonic(), 0.0))
        if not coming.done():
            await asyncio.sleep(0)  # a loop that was blocked may find the end of the time-out first
        if not coming.done():
            raise TimeoutError("no connection in time")
        made = coming.result()
        if isinstance(made, LoopConnection):
            return made
        raise made


class _OfLoop:
    """The connections of one event loop. Refers to the loop only while a connection is made."""

    def __init__(self) -> None:
        self.ready: dict[Connect, ref[LoopConnection]] = {}
        self.coming: dict[Connect, asyncio.Future[LoopConnection | Exception]] = {}

    def deliver(self, loop: AbstractEventLoop, step: Connect, made: Connection | Exception) -> None:
        """Hand a new connection to the loop, from another thread."""
        try:
            loop.call_soon_threadsafe(self._take_over, loop, step, made)
        except RuntimeError as error:  # the loop was closed
            pass_interrupt(error)
            self.coming.pop(step, None)

    def _take_over(self, loop: AbstractEventLoop, step: Connect, made: Connection | Exception) -> None:
        coming = self.coming.pop(step)
        try:
            result = LoopConnection(loop, made) if isinstance(made, Connection) else made
        except NotImplementedError as error:
            result = error
        if isinstance(result, LoopConnection):
            self.ready[step] = ref(result)
        if not coming.done():
            coming.set_result(result)
