"""Estimate the memory of a decoded OTLP message from its bytes.

Two bytes of protobuf can become a span of 170, and three of JSON a dict of 71. So the parts of a message are counted,
at the speed of ``bytes.count``. A text that looks like a part makes the estimate larger, never smaller. The weights are
measured: a message of one kind of part takes 0.2 to 1.7 times its estimate.
"""

from __future__ import annotations

_OBJECT, _ARRAY, _ITEM = 200, 90, 64
"""JSON: bytes of memory of an object with few members, of an array, and of an item in one of them."""
_WIDEST = 4
"""Bytes of each character of a string, if it has a character beyond the basic plane of Unicode."""
_SPAN, _PART = 176, 72
"""Protobuf: bytes of memory of a span, and of any other message in it."""
_SPAN_TAGS = (b"\x12", b"\x92")
"""The tag of a span, and the first byte of the same tag if it is written with a needless second one."""
_PART_TAGS = b"\x0a\x1a\x4a\x5a\x6a"
"""The tags of other messages that may occur many times. Text has few of these bytes."""

_PIECE = 1 << 18
"""Bytes that are counted at once: they are copied for it."""


def _classes() -> bytes:
    """Return a table for ``bytes.translate``: quote -> q, 0 -> z, other bytes below 32 -> s, bytes from 128 -> h."""
    kinds = bytearray(b".") * 256
    kinds[:32] = b"s" * 32
    kinds[128:] = b"h" * 128
    kinds[0], kinds[ord('"')] = ord("z"), ord("q")
    return bytes(kinds)


_CLASSES = _classes()
_PAIRS = (b"qs", b"qz", b"hz")
"""Pairs of such bytes that may begin a message, too. A quote is also the tag of an attribute of a link, with a small
length after it. A byte from 128 with a zero after it may end a tag or a length that is longer than it has to be."""


def json_size(payload: bytes) -> int:
    """Return the bytes of memory that a JSON message is estimated to take as Python objects."""
    width = 1 if payload.isascii() and b"\\u" not in payload else _WIDEST
    parts = _OBJECT * payload.count(b"{") + _ARRAY * payload.count(b"[") + _ITEM * payload.count(b",")
    return width * len(payload) + parts


def protobuf_size(payload: bytes) -> int:
    """Return the bytes of memory that a protobuf message is estimated to take as an object of Google's library."""
    size = len(payload) + _SPAN * sum(map(payload.count, _SPAN_TAGS))
    for start in range(0, len(payload), _PIECE):
        piece = payload[start : start + _PIECE]
        kinds = piece.translate(_CLASSES)
        size += _PART * (len(piece) - len(piece.translate(None, _PART_TAGS)) + sum(map(kinds.count, _PAIRS)))
    return size
