"""The script that appends to a log: its arguments and its reply."""

from __future__ import annotations

import hashlib
import os
import struct
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.guard.event_log import Entry, LogReply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_loopguard.guard.event_log import Op

    Arguments = list[str | int | bytes]

MOST_ENTRIES = 4_096
"""In one log. Beyond that nothing is appended until a caller sends a snapshot, which takes the place of entries."""
PREFIX = "loopguard:"
_EPOCH_SIZE = 8
_MARK_SIZE = 8
_HEAD = struct.Struct(">IIB")
"""Before an entry's identity: seconds, microseconds, the length of the identity."""
_NO_LOG = LogReply(b"", None, 0, [])


class Script(NamedTuple):
    """A script and the hash by which a server knows it."""

    text: bytes
    sha: str


@cache
def script() -> Script:
    """Load the script."""
    text = files(__package__).joinpath("append.lua").read_bytes()
    return Script(text, hashlib.sha1(text, usedforsecurity=False).hexdigest())


def key_of(key: str) -> bytes:
    """Return the name of a log on the server. The part in braces decides its place in a cluster."""
    return f"{PREFIX}{{{key}}}".encode()


def arguments(
    ops: Sequence[Op],
    *,
    epoch: bytes,
    seen: int,
    snapshot: tuple[int, bytes] | None,
    expiry: float,
    answered: bool,
) -> Arguments:
    """Return the arguments of the script after the id of the server."""
    position, state = (-1, b"") if snapshot is None else snapshot
    expires = int(expiry * 1000)
    fixed: Arguments = [
        epoch, seen, os.urandom(_EPOCH_SIZE), expires, MOST_ENTRIES, position, state, "1" if answered else "0",
    ]  # fmt: skip
    for op, data in ops:
        fixed.append(hashlib.blake2b(op, digest_size=_MARK_SIZE).digest())
        fixed.append(bytes((len(op),)) + op + data)
    return fixed


def parse(reply: list[Any]) -> LogReply:
    """Read the reply of the script."""
    if len(reply) == 1:
        return _NO_LOG
    epoch, base, snapshot, bodies = reply
    entries = []
    for body in bodies:
        seconds, microseconds, size = _HEAD.unpack_from(body)
        end = _HEAD.size + size
        entries.append(Entry(seconds + microseconds / 1e6, body[_HEAD.size : end], body[end:]))
    return LogReply(epoch, snapshot, base, entries)
