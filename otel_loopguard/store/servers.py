"""The servers that a URL names, for one event loop, through redis-py. A request has one deadline, retry included."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from inspect import signature
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.utils import suppress_instrumentation
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisClusterException

from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.store.breaker import Breaker
from otel_loopguard.store.failures import CONNECTION, REPLICA, STORE_ERRORS, failure_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias, TypeVar

    from otel_loopguard.store.url import Login, StoreUrl

    T = TypeVar("T")
    Ask: TypeAlias = Callable[[], Awaitable[T]]

_MOST_AT_ONCE = 8
"""Requests at once. With more, the loop would read some answers too late, as if the server had sent none."""
_LONGEST_TRY = 10.0
"""Seconds from a missed deadline until the try is cancelled. A connection that comes late serves the next request."""
_PATIENCE = 4
"""A sentinel or node that is silent for four time-outs of the URL is given up, and the next one is asked."""
_NO_NAME = dict.fromkeys({"driver_info"} & signature(Redis).parameters.keys() or ("lib_name", "lib_version"))
"""Options that keep redis-py from telling a server its name, for which a user would need a right."""


class Servers:
    """The servers of a store, with their connections and breakers. Made on the event loop that uses them."""

    def __init__(self, url: StoreUrl) -> None:
        self.loop = asyncio.get_running_loop()
        self.client, self._others = _clients_of(url)
        """The client for commands."""
        self._url = url
        self._breakers: dict[str, Breaker] = {}
        self._trying: set[asyncio.Task[Any]] = set()
        self._places, self._most = asyncio.Semaphore(1), 1
        """Requests at once: one at first, one more with each answer, so that connections are not all made together."""

    def breaker(self, name: str) -> Breaker:
        """Return the breaker of the server that holds a cell. Each node of a cluster has a breaker of its own."""
        return self._breakers.setdefault(getattr(self._node(name), "name", ""), Breaker())

    async def run(self, name: str, *command: str) -> Any:
        """Run a command on the server that holds a cell, and return its reply."""
        if not self._url.is_cluster:
            return await self.client.execute_command(*command)
        await self.client.initialize()
        return await self.client.execute_command(*command, target_nodes=self._node(name))

    def _node(self, name: str) -> Any:
        if self._url.is_cluster:
            with suppress(RedisClusterException):  # its nodes are not known yet
                return self.client.get_node_from_key(name)
        return None

    async def answer(self, ask: Ask[T]) -> T:
        """Return the answer of a server, within twice the time-out of the URL; else raise one of ``STORE_ERRORS``.

        Ask again once if the connection was broken. Not after a time-out: the server may be doing what it was asked.
        """
        until = self.loop.time() + 2 * self._url.timeout
        await self._take_place()
        try:
            for is_last in (False, True):
                try:
                    found = await self._try(ask, until)
                    break
                except STORE_ERRORS as error:
                    pass_interrupt(error)
                    kind = failure_of(error, self._url.timeout).kind
                    if kind == REPLICA:  # another server has taken over, and a new connection may find it
                        await self.close()
                    if is_last or kind not in (CONNECTION, REPLICA):
                        raise
            if self._most < _MOST_AT_ONCE:
                self._most += 1
                self._places.release()
            return found
        finally:
            self._places.release()

    async def _take_place(self) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        try:
            await asyncio.wait_for(self._places.acquire(), self._url.timeout)
        except asyncio.TimeoutError:
            raise asyncio.QueueFull from None

    async def _try(self, ask: Ask[T], until: float) -> T:
        task = self.loop.create_task(_untraced(ask))
        self._trying.add(task)
        task.add_done_callback(self._tried)
        try:
            done, _ = await asyncio.wait({task}, timeout=min(self._url.timeout, until - self.loop.time()))
            if not done:
                raise TimeoutError
            return task.result()
        finally:
            if not task.done():
                self.loop.call_later(_LONGEST_TRY, task.cancel)

    def _tried(self, task: asyncio.Task[Any]) -> None:
        self._trying.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may wait for it any more

    async def close(self) -> None:
        """Close all connections. The next request makes them again."""
        clients = (self.client, *self._others)
        await asyncio.gather(*(client.aclose() for client in clients), return_exceptions=True)  # one may not answer

    async def end(self) -> None:
        """Close all connections, also those that are being made."""
        if self._trying:
            for task in self._trying:
                task.cancel()
            await asyncio.wait(self._trying)
        await self.close()


async def _untraced(ask: Ask[T]) -> T:
    with suppress_instrumentation():
        return await ask()


def _clients_of(url: StoreUrl) -> tuple[Any, list[Redis]]:
    """Return the client for commands, and the clients of the sentinels. None of them asks a second time by itself."""
    bounds = {"socket_timeout": _PATIENCE * url.timeout, "socket_connect_timeout": _LONGEST_TRY}
    options = _options(url, url.login)
    if url.is_cluster:
        nodes = [ClusterNode(host, port) for host, port in url.addresses if port is not None]
        cluster = RedisCluster(startup_nodes=nodes, require_full_coverage=False, **options | bounds)
        cluster.commands_parser = _NoCommands()  # type: ignore[assignment]  # has the one method that is called
        return cluster, []
    options |= {"db": url.database, "socket_timeout": None, "socket_connect_timeout": None}
    if url.has_sentinels:
        of_sentinels = _options(url, url.sentinel_login) | bounds
        sentinel = Sentinel(url.addresses, sentinel_kwargs=of_sentinels, **options)  # type: ignore[no-untyped-call]  # it has no hints
        # A copy: redis-py reorders its list while it asks, and two tasks at once may write one entry over another.
        return sentinel.master_for(url.service), list(sentinel.sentinels)
    (address,) = url.addresses
    if address.port is None:
        return Redis(unix_socket_path=address.host, **options), []
    return Redis(host=address.host, port=address.port, **options), []


class _NoCommands:
    """Takes the place of redis-py's list of commands, which it loads from a node that may be down.

    The client needs the list to find the keys of commands, but not those of a script.
    """

    async def initialize(self, node: Any) -> None:
        """Do nothing."""


def _options(url: StoreUrl, login: Login) -> dict[str, Any]:
    options: dict[str, Any] = {
        "username": login.username,
        "password": login.password,
        "socket_keepalive": True,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        **_NO_NAME,
    }
    if url.tls is not None:
        options |= {
            "ssl": True,
            "ssl_ca_certs": url.tls.ca_certs,
            "ssl_certfile": url.tls.certfile,
            "ssl_keyfile": url.tls.keyfile,
            "ssl_cert_reqs": "required" if url.tls.verify else "none",
            "ssl_check_hostname": url.tls.check_hostname,
        }
    return options
