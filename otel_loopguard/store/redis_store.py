"""The cells on a Redis or Valkey server, through redis-py.

A swap never raises, and takes at most twice the time-out of the URL. After failures in a row a breaker keeps requests
from the server for a while. All of it runs on the background loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import zlib
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoScriptError, ResponseError

from otel_loopguard.errors import StoreError
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.shield import Shield
from otel_loopguard.store import background
from otel_loopguard.store.failures import BREAKER_OPEN, QUEUE_FULL, STORE_ERRORS, WRITE_FAILURES, failure_of
from otel_loopguard.store.servers import Servers
from otel_loopguard.store.store import VERSION_SIZE, Newer, Swapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.store.breaker import Breaker
    from otel_loopguard.store.seal import Seal
    from otel_loopguard.store.url import StoreUrl

logger = logging.getLogger("otel_loopguard")

_SWAP = b"""
local old = redis.call('GET', KEYS[1]) or ''
local time = redis.call('TIME')
local info = redis.pcall('INFO', 'server')
local server = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
if string.sub(old, 1, 8) ~= ARGV[1] then return {time[1], time[2], server, old} end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return {time[1], time[2], server}
"""
_WRITTEN = 3
"""The length of the reply of a server that has set the cell."""
_SHA = hashlib.sha1(_SWAP, usedforsecurity=False).hexdigest()
_PREFIX = "loopguard:3:"
"""The beginning of every key, with the version of the cells' format: two formats, as in an update, share no cell."""


class RedisStore:
    """The cells on the servers that a URL names. Connects at the first request."""

    def __init__(self, url: StoreUrl, seal: Seal, *, expiry: float) -> None:
        self.url, self.seal = url, seal
        self.shield = Shield()
        """Takes faults of this package; the runtime puts its own here."""
        self.count: Callable[[str], None] | None = None
        """Called with the kind of each failure, to count it as a metric, too. None: nobody does."""
        self.failures: Counter[str] = Counter()
        """The number of requests that failed, by the kind of their failure."""
        self.expiry = expiry
        """Seconds after the last change, at which the server forgets a cell."""
        self._of_loop: Servers | None = None

    def __repr__(self) -> str:
        return f"RedisStore({str(self.url)!r})"

    async def swap(self, key: str, seen: bytes, version: bytes, state: bytes) -> Swapped | Newer | None:
        """Set a cell as ``Store.swap`` does. Return None if the server did not answer, or the breaker is open."""
        try:
            servers, name = self._servers(), name_of(key)
            breaker = servers.breaker(name)
            if not breaker.allows():
                self._count(BREAKER_OPEN)
                return None
            cell = version + self.seal.seal(zlib.compress(state, 1), name.encode() + version) if version else b""
            arguments = (1, name, seen, cell, int(self.expiry * 1000))
            try:
                reply = await servers.answer(lambda: _run(servers.client, arguments))
            except STORE_ERRORS as error:
                pass_interrupt(error)
                self._failed(breaker, error)
                return None
            self._succeeded(breaker, wrote=len(reply) == _WRITTEN)
            return self._read(name, version, reply)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller goes on without the store
            self.shield.take("store.swap", error)
            return None

    def _read(self, name: str, version: bytes, reply: list[Any]) -> Swapped | Newer:
        seconds, microseconds, server, *found = reply
        time = int(seconds) + int(microseconds) / 1e6
        if not found:
            return Swapped(time, server)
        present, sealed = found[0][:VERSION_SIZE], found[0][VERSION_SIZE:]
        if version and present == version:  # a first try has arrived, and its answer was lost
            return Swapped(time, server)
        data = self.seal.unseal(sealed, name.encode() + present)
        return Newer(time, server, present, zlib.decompress(data) if data else b"")

    async def ask(self, key: str, *commands: tuple[str, ...]) -> list[Any]:
        """Run commands on the server that holds a cell, and return their replies. Raise ``StoreError`` on failure."""
        servers = self._servers()
        try:
            return [await servers.answer(partial(servers.run, name_of(key), *command)) for command in commands]
        except STORE_ERRORS as error:
            pass_interrupt(error)
            raise StoreError(failure_of(error, self.url.timeout).reason) from error

    def _servers(self) -> Servers:
        """Return the servers for the running loop. A forked child has a loop of its own, and connects anew."""
        servers = self._of_loop
        if servers is None or servers.loop is not asyncio.get_running_loop():
            self._of_loop = servers = Servers(self.url)
            background.close_with(self, servers.end)
        return servers

    # --- success and failure ------------------------------------------------------------------------------------------

    def _succeeded(self, breaker: Breaker, *, wrote: bool) -> None:
        if breaker.kind in WRITE_FAILURES and not wrote:
            return
        seconds = breaker.succeeded()
        if seconds is not None:
            logger.warning(
                "The shared store %s answers again, after %.1f s: turns are shared again.", self.url, seconds
            )

    def _failed(self, breaker: Breaker, error: BaseException) -> None:
        failure = failure_of(error, self.url.timeout)
        self._count(failure.kind)
        if failure.kind != QUEUE_FULL and breaker.failed(failure.kind):
            logger.warning(
                "The shared store %s cannot be used: %s. Until it answers, each process judges by the calls that it "
                "knows, and nudges where it would refuse a repeat. It is tried again after pauses of up to 30 s.",
                self.url,
                failure.reason,
            )

    def _count(self, kind: str) -> None:
        self.failures[kind] += 1
        if self.count is not None:
            self.count(kind)


def name_of(key: str) -> str:
    """Return the name of a cell on the server. The part in braces decides which node of a cluster has it."""
    return f"{_PREFIX}{{{key}}}"


async def _run(client: Any, arguments: tuple[Any, ...]) -> list[Any]:
    """Run the script; send its text if the server does not know it."""
    try:
        reply = await client.evalsha(_SHA, *arguments)
    except NoScriptError:
        reply = await client.eval(_SWAP, *arguments)
    if type(reply) is not list or len(reply) < _WRITTEN:
        raise ResponseError("ERR no reply of this script")
    return reply
