"""Which server holds a log: one, the one that sentinels know, or a node of a cluster.

The functions here are generators that yield steps, to connect or to exchange, and get their results. So they are the
same for threads and for event loops, which take the steps in their own ways (``redis_log``).
"""

from __future__ import annotations

from binascii import crc_hqx
from typing import TYPE_CHECKING, Any, NamedTuple

from hiredis import ReplyError

from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.store.breaker import Breaker
from otel_loopguard.store.script import key_of, script
from otel_loopguard.store.url import Address, Login

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from typing import TypeAlias, TypeVar

    from otel_loopguard.store.connection import Command
    from otel_loopguard.store.script import Arguments
    from otel_loopguard.store.url import StoreUrl

    T = TypeVar("T")
    Steps: TypeAlias = "Generator[Connect | Exchange, Any, T]"

_SLOTS = 16_384
_MOST_TRIES = 4
"""Of one call: a closed connection, and redirections."""


class Connect(NamedTuple):
    """The step that results in a connection, of this thread or event loop."""

    address: Address
    login: Login
    database: int = 0


class Exchange(NamedTuple):
    """The step that results in a list of replies."""

    peer: Any
    """The result of ``Connect``: a ``Connection`` or a ``LoopConnection``."""
    commands: Sequence[Command]


class UnavailableError(Exception):
    """The server answered with an error. ``word`` is the first of its message; the others may quote an argument."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


def append(servers: Servers, key: str, arguments: Arguments) -> Steps[list[Any]]:
    """Run the script on the server that holds the log, and return its reply."""
    address, asking, repeated = (yield from servers.locate(key)), False, False
    for _ in range(_MOST_TRIES):
        was_used = False
        try:
            peer = yield Connect(address, servers.login, servers.database)
            was_used = peer.was_used
            reply = yield from _run(peer, key, arguments, asking=asking)
        except Exception as error:
            if was_used and not repeated and isinstance(error, ConnectionError):
                repeated = True  # the server may have closed an idle connection; to append twice appends once
                continue
            servers.lost(address)
            raise
        if not isinstance(reply, ReplyError):
            return reply  # type: ignore[no-any-return]  # a list, by the script
        word, _, rest = str(reply).partition(" ")
        if word in ("MOVED", "ASK"):
            address, asking = _redirected(rest, address), word == "ASK"
            if not asking:
                servers.moved(key, address)
            continue
        servers.lost(address)
        raise UnavailableError(word)
    raise UnavailableError("MOVED")


def ask(servers: Servers, key: str, commands: Sequence[Command]) -> Steps[list[Any]]:
    """Run commands on the server that holds a log, and return their replies."""
    address = yield from servers.locate(key)
    peer = yield Connect(address, servers.login, servers.database)
    replies: list[Any] = yield Exchange(peer, commands)
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise reply
    return replies


def _run(peer: Any, key: str, arguments: Arguments, *, asking: bool) -> Steps[Any]:
    """Run the script; send its text if the server does not know it."""
    before: list[Command] = [("ASKING",)] if asking else []
    rest = (1, key_of(key), peer.server_id, *arguments)
    *_, reply = yield Exchange(peer, [*before, ("EVALSHA", script().sha, *rest)])
    if isinstance(reply, ReplyError) and str(reply).startswith("NOSCRIPT"):
        *_, reply = yield Exchange(peer, [*before, ("EVAL", script().text, *rest)])
    return reply


def _redirected(rest: str, address: Address) -> Address:
    """Return the address in a redirection: ``SLOT HOST:PORT``, where no host means the same."""
    host, _, port = rest.rsplit(" ", maxsplit=1)[-1].rpartition(":")
    return Address(host or address.host, int(port))


class Servers:
    """The server of a store whose address is known; its subclasses are servers whose addresses have to be found."""

    def __init__(self, url: StoreUrl) -> None:
        self.login, self.database = url.login, url.database
        self._given = url.addresses
        self._breaker = Breaker()

    def breaker(self, key: str) -> Breaker:  # noqa: ARG002 - a cluster needs the key
        """Return the breaker for the server that holds a log."""
        return self._breaker

    def breakers(self) -> Iterator[Breaker]:
        """Yield all breakers."""
        yield self._breaker

    def locate(self, key: str) -> Steps[Address]:  # noqa: ARG002 - as above
        """Return the address of the server that holds a log."""
        yield from ()
        return self._given[0]

    def lost(self, address: Address) -> None:
        """Take note that a server did not answer, or may not be the right one any more."""

    def moved(self, key: str, address: Address) -> None:  # noqa: ARG002 - as above
        """Take note that a log is on another server of a cluster."""
        raise UnavailableError("MOVED")


def servers_of(url: StoreUrl) -> Servers:
    """Return the servers that a URL names."""
    kind = Cluster if url.is_cluster else Sentinels if url.has_sentinels else Servers
    return kind(url)


class Sentinels(Servers):
    """A server that sentinels know: after a failover it is another one."""

    def __init__(self, url: StoreUrl) -> None:
        super().__init__(url)
        self._sentinels = list(self._given)
        self._sentinel_login, self._service = url.sentinel_login, url.service
        self._master: Address | None = None

    def locate(self, key: str) -> Steps[Address]:  # noqa: ARG002 - as above
        """Return the address that the sentinels last told, or ask them."""
        master = self._master
        if master is None:
            self._master = master = yield from self._ask()
        return master

    def _ask(self) -> Steps[Address]:
        """Ask the sentinels one after the other. One that does not answer is asked last the next time."""
        last: OSError = ConnectionError("no sentinel knows the service")
        for sentinel in list(self._sentinels):
            try:
                peer = yield Connect(sentinel, self._sentinel_login)
                (reply,) = yield Exchange(peer, [("SENTINEL", "get-master-addr-by-name", self._service)])
            except OSError as error:
                pass_interrupt(error)
                last = error
                self._sentinels.remove(sentinel)
                self._sentinels.append(sentinel)
                continue
            if isinstance(reply, ReplyError):
                raise UnavailableError(str(reply).partition(" ")[0])
            if reply is not None:
                host, port = reply
                return Address(host.decode(), int(port))
        raise last

    def lost(self, address: Address) -> None:
        """Ask the sentinels at the next call."""
        if self._master == address:
            self._master = None


class Cluster(Servers):
    """Nodes that share the keys. The map of the keys is read at the first call, and again when a node is lost."""

    def __init__(self, url: StoreUrl) -> None:
        super().__init__(url)
        self._nodes: list[Address | None] = [None] * _SLOTS
        self._breakers: dict[Address | None, Breaker] = {}
        self._stale = True
        self._lost: Address | None = None

    def breaker(self, key: str) -> Breaker:
        """Return the breaker of the node that holds a log: one node that is down opens no other's."""
        return self._breakers.setdefault(self._nodes[_slot(key)], Breaker())

    def breakers(self) -> Iterator[Breaker]:
        """Yield the breakers of all nodes."""
        yield from list(self._breakers.values())

    def locate(self, key: str) -> Steps[Address]:
        """Return the address of the node, by a new map if the last one is out of date."""
        if self._stale:
            self._stale = False
            try:
                yield from self._read_map()
            except BaseException:
                self._stale = True
                raise
        return self._nodes[_slot(key)] or self._given[0]

    def _read_map(self) -> Steps[None]:
        """Ask the nodes one after the other, the lost one last."""
        last: OSError = ConnectionError("no node knows the map of the cluster")
        nodes = dict.fromkeys([*filter(None, dict.fromkeys(self._nodes)), *self._given])
        for node in sorted(nodes, key=lambda address: address == self._lost):
            try:
                peer = yield Connect(node, self.login)
                (reply,) = yield Exchange(peer, [("CLUSTER", "SLOTS")])
            except OSError as error:
                pass_interrupt(error)
                last = error
                continue
            if isinstance(reply, ReplyError):
                raise UnavailableError(str(reply).partition(" ")[0])
            for first, end, (host, port, *_), *_ in reply:
                address = Address(host.decode() if host else node.host, port)
                self._nodes[first : end + 1] = [address] * (end + 1 - first)
            return
        raise last

    def lost(self, address: Address) -> None:
        """Read the map at the next call."""
        self._lost, self._stale = address, True

    def moved(self, key: str, address: Address) -> None:
        """Take the new place of the log, and read the map at the next call: others have moved, too."""
        self._nodes[_slot(key)] = address
        self._stale = True


def _slot(key: str) -> int:
    """Return the slot of a log. The part of its name in braces decides."""
    return crc_hqx(key.encode(), 0) % _SLOTS
