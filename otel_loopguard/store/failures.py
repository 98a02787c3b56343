"""Failures of the store: their kind, which is counted, and the sentence about them in the log. Neither has a secret."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from typing import TYPE_CHECKING, NamedTuple

from redis import exceptions

if TYPE_CHECKING:
    from collections.abc import Iterator

FULL, REPLICA = "full", "replica"
WRITE_FAILURES = frozenset({FULL, REPLICA})
"""Kinds of failures of a server that takes no writes, but answers reads."""
CONNECTION, BREAKER_OPEN, QUEUE_FULL = "connection", "breaker_open", "queue_full"

STORE_ERRORS = (
    exceptions.RedisError,
    exceptions.RedisClusterException,
    OSError,
    asyncio.TimeoutError,
    asyncio.QueueFull,
)
"""Exceptions of a request to the server that are no fault of this package."""

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
    "NOPERM": ("login", _REFUSED),
    "MOVED": ("cluster", "it is a node of a cluster: the URL must begin with redis+cluster:// or rediss+cluster://"),
    "LOADING": ("busy", _BUSY),
    "BUSY": ("busy", _BUSY),
    "MASTERDOWN": ("busy", _BUSY),
    "CLUSTERDOWN": ("busy", _BUSY),
    "TRYAGAIN": ("busy", _BUSY),
}
_WORDS = (
    (exceptions.OutOfMemoryError, "OOM"),
    (exceptions.ReadOnlyError, "READONLY"),
    (exceptions.AuthenticationError, "NOAUTH"),
    (exceptions.NoPermissionError, "NOPERM"),
    (exceptions.MovedError, "MOVED"),
    (exceptions.BusyLoadingError, "LOADING"),
    (exceptions.MasterDownError, "MASTERDOWN"),
    (exceptions.ClusterDownError, "CLUSTERDOWN"),
    (exceptions.SlotNotCoveredError, "CLUSTERDOWN"),
    (exceptions.TryAgainError, "TRYAGAIN"),
)
"""The first word of a server's error, for the exceptions from whose text redis-py has removed it."""


class Failure(NamedTuple):
    """A failure of the store."""

    kind: str
    reason: str
    """The end of the sentence "The shared store cannot be used: ..."."""


def failure_of(error: BaseException, timeout: float) -> Failure:
    """Return the kind and the reason of an exception. ``timeout`` is that of the URL, in seconds.

    The text of a server's error may quote an argument, so only its first word is kept.
    """
    if isinstance(error, (TimeoutError, asyncio.TimeoutError, exceptions.TimeoutError)):
        return Failure("timeout", f"no answer within {timeout * 1000:.0f} ms")
    if isinstance(error, asyncio.QueueFull):
        return Failure(QUEUE_FULL, "too many calls at the same time")
    word = next((word for kind, word in _WORDS if isinstance(error, kind)), "")
    if word or isinstance(error, exceptions.ResponseError):
        word = word or str(error).partition(" ")[0]
        kind, reason = _BY_WORD.get(word, ("error", "it answers with an error"))
        return Failure(kind, f"{reason} ({word[:20]})")
    chain = list(_causes(error))
    for one in chain:
        if isinstance(one, ssl.SSLError):
            reason = getattr(one, "reason", None) or type(one).__name__
            return Failure("tls", f"TLS failed ({reason}); see ?ssl_ca_certs= and rediss://")
    reasons = [_reason(one) for one in chain if isinstance(one, OSError)]
    return Failure(CONNECTION, f"no connection ({reasons[0] if reasons else type(error).__name__})")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _reason(error: OSError) -> str:
    """Return the operating system's text for an error. The text of asyncio names the address."""
    if isinstance(error, socket.gaierror):
        return error.strerror or type(error).__name__
    number = error.errno or next(map(int, re.findall(r"\[Errno (\d+)\]", str(error))), None)
    return type(error).__name__ if number is None else os.strerror(number)
