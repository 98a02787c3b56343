"""Read the bytes of an OTLP message: unpack gzip, estimate the memory of the decoded message, and decode it."""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Any

import orjson
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # the package has no type hints

from otel_loopguard.cli.replay.line_judge import MISSHAPEN
from otel_loopguard.spans import otlp, otlp_protobuf
from otel_loopguard.spans.ancestry import Ancestry
from otel_loopguard.spans.otlp import ToolSpan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_loopguard.cli.watch.budget import Share

_GZIP = 16 + zlib.MAX_WBITS
_STEP = 1 << 18
"""Bytes that are unpacked at once, after they are taken from the budget."""


class MalformedError(ValueError):
    """A message is no OTLP, so there is no use in sending it again."""


def gunzip(packed: bytes, share: Share) -> bytes:
    """Unpack gzip. The share has the packed bytes before, and the unpacked ones after.

    Raise ``MalformedError`` if it is no gzip, and the errors of ``Share.resize`` if there is no room.
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


def decoded(payload: bytes, *, is_json: bool) -> Any:
    """Decode a message, protobuf or JSON. Raise ``MalformedError`` if it is no OTLP."""
    try:
        return _checked(orjson.loads(payload)) if is_json else otlp_protobuf.decode(payload)
    except (DecodeError, *MISSHAPEN) as error:
        raise MalformedError(f"the message is no OTLP: {type(error).__name__}") from error


def _checked(content: Any) -> Any:
    """Return a parsed JSON message as it is. Raise one of ``MISSHAPEN`` if it is no OTLP."""
    if "resourceSpans" not in content and content:
        raise KeyError("resourceSpans")
    for _ in otlp.spans_of({"resourceSpans": (), **content}, Ancestry()):
        pass
    return content


def spans_of_message(content: Any, ancestry: Ancestry) -> tuple[Iterable[ToolSpan], int]:
    """Return the tool spans of a decoded message, and the number of all its spans, which are added to ``ancestry``."""
    before = ancestry.seen
    if isinstance(content, dict):
        spans = [span for span in otlp.spans_of({"resourceSpans": (), **content}, ancestry) if type(span) is ToolSpan]
    else:
        spans = list(otlp_protobuf.tool_spans_of(content, ancestry))
    return spans, ancestry.seen - before


# --- the memory of a decoded message ---------------------------------------------------------------------------------
#
# Two bytes of protobuf can become a span of 170, and three of JSON a dict of 71. So the parts of a message are counted,
# at the speed of ``bytes.count``. A text that looks like a part makes the estimate larger, never smaller. The weights
# are measured: a message of one kind of part takes 0.2 to 1.7 times its estimate.

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
