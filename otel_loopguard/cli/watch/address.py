"""Parse the addresses that receivers listen at, and word the error for one that is in use or not of this machine."""

from __future__ import annotations

from ipaddress import ip_address
from socket import inet_aton
from typing import Final, NamedTuple

from otel_loopguard.errors import LoopGuardError

LOOPBACK: Final = "127.0.0.1"
_LAST_PORT = 65_535
_FURTHER = 10_000


class ListenAddress(NamedTuple):
    """A host and a port to listen at."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """Return the address of ``HOST:PORT``, ``:PORT`` or ``PORT``; IPv6 has brackets, as in ``[::1]:4317``.

        Without a host it is 127.0.0.1, because receivers have no login. Raise ``ValueError`` for any other text.
        """
        host, _, port = text.rpartition(":")
        has_brackets = host.startswith("[") and host.endswith("]")
        if not port.isdecimal() or int(port) > _LAST_PORT or (":" in host and not has_brackets):
            raise ValueError(f"{text!r} is no address; write one such as :4317 (this machine only) or 0.0.0.0:4317")
        return cls(host.strip("[]") or LOOPBACK, int(port))

    @property
    def is_everywhere(self) -> bool:
        """True if it stands for all addresses of this machine, as 0.0.0.0 does."""
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
    """Return the error that nothing can listen at the address of this option. It names a free one, most likely."""
    other = address._replace(port=address.port + _FURTHER * (1 if address.port + _FURTHER <= _LAST_PORT else -1))
    return LoopGuardError(
        f"{option} {address}: nothing can listen there ({reason}). If a collector on this machine has the port, take "
        f"another one, such as {option} {other}, and let the collector send to it"
    )
