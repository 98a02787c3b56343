"""The address of the shared store, as a URL: one server, servers behind sentinels, or a cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from otel_loopguard.engine.policy.problems import suggestion_or_all
from otel_loopguard.errors import StoreError
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
_PORT = 6379
_SENTINEL_PORT = 26379
_TIMEOUT = 0.05
"""Seconds."""
_LONGEST_TIMEOUT = 5.0
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_.-]+))(?::(?P<port>[0-9]{1,5}))?")


class Address(NamedTuple):
    """A server: a host and a port, or a unix socket."""

    host: str
    """A name, an IP address, or the path of a socket."""
    port: int | None
    """None for a socket."""

    def __str__(self) -> str:
        if self.port is None:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Login:
    """A user and a password. Not shown: it may get into a log with the object that holds it."""

    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Tls:
    """The settings of TLS, with the names that they have in a URL."""

    ca_certs: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    verify: bool = True
    check_hostname: bool = True


@dataclass(frozen=True)
class StoreUrl:
    """A URL of a store, checked."""

    scheme: str
    addresses: tuple[Address, ...]
    """Of the server, of the sentinels, or of some nodes of the cluster."""
    login: Login = Login()
    sentinel_login: Login = Login()
    service: str = ""
    """The name that the sentinels have for the server."""
    database: int = 0
    tls: Tls | None = None
    timeout: float = _TIMEOUT
    """Seconds to wait for one answer of the server."""

    @property
    def is_cluster(self) -> bool:
        """True if the keys are spread over several servers."""
        return self.scheme.endswith("+cluster")

    @property
    def has_sentinels(self) -> bool:
        """True if the addresses are those of sentinels, which know the server."""
        return self.scheme.endswith("+sentinel")

    def __str__(self) -> str:
        """Return the URL without user, password and options."""
        places = ",".join(map(str, self.addresses))
        path = f"/{self.service}" if self.has_sentinels else ""
        path += f"/{self.database}" if self.database and self.addresses[0].port is not None else ""
        return f"{self.scheme}://{places}{path}"


def parse(url: str) -> StoreUrl:
    """Check a URL, and return its parts. Raise a ``StoreError`` that names the mistake, and no secret."""
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in SCHEMES:
        wrong = f"{scheme}://: no such kind of store" if separator and scheme.isascii() else "this is no URL of a store"
        raise StoreError(f"{wrong}; it must begin with one of {', '.join(f'{one}://' for one in SCHEMES)}.")
    try:
        parts = urlsplit(url)
    except ValueError as error:  # a bracket without its other one
        pass_interrupt(error)
        raise StoreError(f"{scheme}://: the URL cannot be read; {_ENCODE}") from None
    if parts.fragment or "#" in url:
        raise StoreError(f"{scheme}://: a URL of a store has no #; {_ENCODE}")
    options = _Options(parts.query)
    who, _, where = parts.netloc.rpartition("@")
    if scheme == "unix":
        addresses, rest = _socket(where, parts.path), ""
    else:
        port = _SENTINEL_PORT if scheme.endswith("+sentinel") else _PORT
        addresses = tuple(_address(one, port) for one in where.split(","))
        rest = unquote(parts.path.strip("/"))
    database, service = options.whole_number("db"), ""
    if scheme.endswith("+sentinel"):
        service, _, rest = rest.partition("/")
        if not service:
            raise StoreError(
                f"{scheme}://: the name of the service is missing: {scheme}://host:26379,host:26379/mymaster"
            )
    elif len(addresses) > 1 and not scheme.endswith("+cluster"):
        raise StoreError(
            f"{scheme}://: several hosts; servers behind sentinels are {scheme}+sentinel://, a cluster is {scheme}+cluster://"
        )
    if rest:
        if not rest.isdecimal():
            raise StoreError(f"{scheme}://: the path must be the number of a database, such as /0; {_ENCODE}")
        database = int(rest)
    if database and scheme.endswith("+cluster"):
        raise StoreError(f"{scheme}://: a cluster has only database 0.")
    found = StoreUrl(
        scheme,
        addresses,
        _login(who),
        Login(options.text("sentinel_username"), options.text("sentinel_password")),
        service,
        database,
        options.tls() if scheme.startswith("rediss") else None,
        options.seconds("timeout", _TIMEOUT),
    )
    options.check_all_read(scheme)
    return found


_ENCODE = "write a special character of a user or password with its code: # as %23, / as %2F, ? as %3F, @ as %40."


def _login(text: str) -> Login:
    username, _, password = text.partition(":")
    return Login(unquote(username) or None, unquote(password) or None)


def _socket(where: str, path: str) -> tuple[Address, ...]:
    if where or path in ("", "/"):
        raise StoreError("unix://: the path of a socket is missing: unix:///run/redis/redis.sock")
    return (Address(unquote(path), None),)


def _address(text: str, default_port: int) -> Address:
    found = _HOST.fullmatch(text)
    port = int(found["port"]) if found and found["port"] else default_port
    if found is None or not 0 < port < 65_536:
        # The text may be a part of a password that was not encoded.
        raise StoreError(f"a host must be NAME, NAME:PORT or [IPv6]:PORT; {_ENCODE}")
    return Address(found["v6"] or found["name"], port)


class _Options:
    """The part of a URL after the question mark. Each option is read once; those that are left are mistakes."""

    def __init__(self, query: str) -> None:
        self._given = dict(parse_qsl(query, keep_blank_values=True))
        self._known: set[str] = set()

    def text(self, name: str) -> str | None:
        self._known.add(name)
        return self._given.pop(name, None)

    def whole_number(self, name: str) -> int:
        text = self.text(name) or "0"
        if not text.isdecimal():
            raise StoreError(f"?{name}=: it must be a whole number, such as 0.")
        return int(text)

    def seconds(self, name: str, default: float) -> float:
        text = self.text(name)
        number = re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,9})?", text or "")
        seconds = default if text is None else float(number[0]) if number else 0.0
        if not 0 < seconds <= _LONGEST_TIMEOUT:
            raise StoreError(
                f"?{name}=: it must be seconds, more than 0 and up to {_LONGEST_TIMEOUT:g}, such as {default:g}."
            )
        return seconds

    def _choice(self, name: str, choices: Mapping[str, bool], default: str) -> bool:
        text = (self.text(name) or default).lower()
        if text not in choices:
            raise StoreError(f"?{name}=: it must be one of {', '.join(choices)}.")
        return choices[text]

    def tls(self) -> Tls:
        verify = self._choice("ssl_cert_reqs", {"required": True, "none": False}, "required")
        names = self._choice("ssl_check_hostname", {"true": True, "false": False}, "true")
        return Tls(
            self.text("ssl_ca_certs"), self.text("ssl_certfile"), self.text("ssl_keyfile"), verify, verify and names
        )

    def check_all_read(self, scheme: str) -> None:
        for name in self._given:
            raise StoreError(f"{scheme}://: no such option: ?{name}=; {suggestion_or_all(name, self._known)}")
