"""Parse the addresses that receivers listen at, and word the error if one cannot be had."""

from __future__ import annotations

from ipaddress import ip_address
from socket import inet_aton
from typing import Final, NamedTuple

from otel_loopguard.errors import LoopGuardError

LOOPBACK: Final = "127.0.0.1"
_LAST_PORT = 65_535
_FURTHER = 10_000


class ListenAddress(NamedTuple):
    """An address to listen at."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """Parse ``HOST:PORT``, ``:PORT`` or ``PORT``; an IPv6 address has brackets.

        Without a host it is that of the loopback: receivers ask nobody who they are.
        """
        host, _, port = text.rpartition(":")
        has_brackets = host.startswith("[") and host.endswith("]")
        if not port.isdecimal() or int(port) > _LAST_PORT or (":" in host and not has_brackets):
            raise ValueError(f"{text!r} is no address; such as :4317 (this machine only) or 0.0.0.0:4317")
        return cls(host.strip("[]") or LOOPBACK, int(port))

    @property
    def is_everywhere(self) -> bool:
        """True if it stands for all addresses of this machine."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return _is_short_for_all(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _is_short_for_all(host: str) -> bool:
    """Return True for ``0`` and other short forms of ``0.0.0.0``, which systems take."""
    try:
        return not any(inet_aton(host))
    except OSError:
        return False


def cannot_listen(option: str, address: ListenAddress, reason: str) -> LoopGuardError:
    """Make the error of an address that is taken, or is not of this machine."""
    other = address._replace(port=address.port + _FURTHER * (1 if address.port + _FURTHER <= _LAST_PORT else -1))
    return LoopGuardError(
        f"{option} {address}: cannot listen there ({reason}). If a collector on this machine has the port, take "
        f"another one, such as {option} {other}, and have the collector send to it"
    )
