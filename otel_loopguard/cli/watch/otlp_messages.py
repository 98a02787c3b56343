"""Read the bytes of an OTLP message: unpack gzip, and decode it."""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Any

import orjson
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # the package has no type hints

from otel_loopguard.cli.replay.line_judge import MISSHAPEN
from otel_loopguard.spans import otlp_logs, otlp_protobuf
from otel_loopguard.spans.ancestry import Ancestry

if TYPE_CHECKING:
    from otel_loopguard.cli.watch.budget import Share
    from otel_loopguard.spans.otlp import ModelSpan, ToolSpan

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


def decoded(payload: bytes, *, is_json: bool, is_logs: bool) -> Any:
    """Decode a message, protobuf or JSON, of spans or of log records. Raise ``MalformedError`` if it is no OTLP."""
    try:
        if is_json:
            return _checked(orjson.loads(payload), "resourceLogs" if is_logs else "resourceSpans")
        return otlp_protobuf.decode(payload, is_logs=is_logs)
    except (DecodeError, *MISSHAPEN) as error:
        raise MalformedError(f"the message is no OTLP: {type(error).__name__}") from error


def _checked(content: Any, key: str) -> Any:
    """Return a parsed message with this key, which an empty one lacks. Raise one of ``MISSHAPEN`` if it is no OTLP."""
    if key not in content and content:
        raise KeyError(key)
    whole = {key: (), **content}
    spans_of_message(whole, Ancestry())
    return whole


def spans_of_message(content: Any, ancestry: Ancestry) -> tuple[list[ToolSpan | ModelSpan], int]:
    """Return the tool calls and the model requests of a decoded message, and the number of all its spans.

    All are added to ``ancestry``.
    """
    before = ancestry.seen
    read = otlp_logs.read_line if isinstance(content, dict) else otlp_protobuf.read_message
    return list(read(content, ancestry)), ancestry.seen - before
