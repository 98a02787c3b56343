"""Failures of the store: their kind, which is counted, and the sentence about them in the log. Neither has a secret."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from hiredis import ReplyError

from otel_loopguard.store.routing import UnavailableError

FULL, REPLICA = "full", "replica"
OF_WRITES = frozenset({FULL, REPLICA})
"""Failures of a server that still answers what only reads."""
BREAKER_OPEN, QUEUE_FULL = "breaker_open", "queue_full"

_REFUSED = (
    "it refuses the user, the password or a command; docs/how-to/shared-store.md lists what the user must be allowed"
)
_BUSY = "it is not ready"
_NO_WRITES = "it takes no writes: see its maxmemory, maxmemory-policy, disk and replicas"
_BY_WORD = {
    "OOM": (FULL, _NO_WRITES),
    "MISCONF": (FULL, _NO_WRITES),
    "NOREPLICAS": (FULL, _NO_WRITES),
    "READONLY": (REPLICA, "it is a replica; for servers that fail over use redis+sentinel:// or redis+cluster://"),
    "NOAUTH": ("login", _REFUSED),
    "WRONGPASS": ("login", _REFUSED),
    "NOPERM": ("login", _REFUSED),
    "MOVED": ("cluster", "it is a node of a cluster: the URL must begin with redis+cluster:// or rediss+cluster://"),
    "LOADING": ("busy", _BUSY),
    "BUSY": ("busy", _BUSY),
    "MASTERDOWN": ("busy", _BUSY),
    "CLUSTERDOWN": ("busy", _BUSY),
    "TRYAGAIN": ("busy", _BUSY),
}


class Failure(NamedTuple):
    """A failure of the store."""

    kind: str
    reason: str
    """The end of a sentence about the server."""


def failure_of(error: BaseException, timeout: float) -> Failure:
    """Describe an exception. The text of a server's error may quote an argument, so only its first word is kept."""
    if isinstance(error, (UnavailableError, ReplyError)):
        word = str(error).partition(" ")[0]
        kind, reason = _BY_WORD.get(word, ("error", "it answers with an error"))
        return Failure(kind, f"{reason} ({word[:20]})")
    if isinstance(error, TimeoutError):
        return Failure("timeout", f"no answer within {timeout * 1000:.0f} ms")
    if isinstance(error, ssl.SSLError):
        return Failure("tls", f"TLS failed ({error.reason or type(error).__name__}); see ?ssl_ca_certs= and rediss://")
    reason = getattr(error, "strerror", None) or (
        str(error) if isinstance(error, ConnectionError) else type(error).__name__
    )
    return Failure("connection", f"no connection ({reason})")
