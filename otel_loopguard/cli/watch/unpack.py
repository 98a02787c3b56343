"""Unpack gzip bodies, as far as there is memory for what comes out of them."""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import TYPE_CHECKING

from otel_loopguard.cli.watch.live import MalformedError

if TYPE_CHECKING:
    from otel_loopguard.cli.watch.budget import Share

_GZIP = 16 + zlib.MAX_WBITS
_STEP = 1 << 18
"""The bytes that are taken before so many are unpacked."""


def gunzip(packed: bytes, share: Share) -> bytes:
    """Unpack a body whose bytes are in the share, which then has those of the result.

    Raise ``MalformedError`` if it is no gzip, and the errors of the share if there is no room.
    """
    unpacker, unpacked = zlib.decompressobj(_GZIP), BytesIO()
    size, rest = 0, packed
    step = min(_STEP, 8 * len(packed) + 64)
    try:
        while not unpacker.eof:
            share.resize(len(packed) + size + step)
            piece = unpacker.decompress(rest, step)
            rest = unpacker.unconsumed_tail
            if not piece and not rest and not unpacker.eof:
                raise MalformedError("the end of the gzip is missing")
            size += unpacked.write(piece)
    except zlib.error as error:
        raise MalformedError("the message is no gzip") from error
    share.resize(size)
    return unpacked.getvalue()
