"""Canonical bytes of what is no container, without a call of a foreign method.

What cannot be read, as an iterator or a data frame of another language, is its type where it is an argument. As a
result it is never the same twice, because nobody can know that it brought nothing new.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import threading
import types
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

import orjson

from otel_loopguard.core.values import introspect

LARGEST_WHOLE_FLOAT = 1e16
"""From here on floats are written with an exponent, and stay as they are."""
_LONGEST_INTEGER = 4_300  # digits that Python converts to text without a complaint

_PRINTABLE = frozenset({datetime, date, time, timedelta, Decimal, UUID, complex, range, *PurePath.__subclasses__()})
_NOTHING_IN_THEM = frozenset(
    {
        types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType, types.ModuleType,
        types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType, type(Ellipsis),
        type(NotImplemented), type(threading.Lock()), type(threading.RLock()),
    }
)  # fmt: skip
"""They hold a lot, but none of it is a result."""


def scalar(item: Any, *, unread: bool = False) -> bytes:
    """The bytes of a value. ``unread``: what cannot be read is never the same as anything."""
    if item is None:
        return b"null"
    if item is True:
        return b"true"
    if item is False:
        return b"false"
    kind = type(item)
    if kind in _PRINTABLE:
        return text(f"{item}")
    for base in introspect.classes(kind):
        writer = _WRITERS.get(base)
        if writer is not None:
            written: bytes = writer(item)
            return written
    return _other(item, unread=unread)


def _other(item: Any, *, unread: bool) -> bytes:
    if introspect.is_a(item, type):
        return text(f"\0{introspect.type_name(item)}")
    try:
        content = memoryview(item)  # bytes, arrays, and whatever else lies in memory as one block
    except (TypeError, ValueError, BufferError):
        if unread and type(item) not in _NOTHING_IN_THEM and introspect.is_hidden(item):
            return unique()
        return type_text(item)
    return b'"\\u0000bytes:%d:%s"' % (
        content.nbytes,
        hashlib.blake2b(content.tobytes(), digest_size=16).hexdigest().encode(),
    )


def _enumerated(item: Any) -> bytes:
    return scalar(object.__getattribute__(item, "_value_"))


def type_text(item: Any) -> bytes:
    """What is left of an object that says nothing: its type."""
    return text(f"\0{introspect.type_name(type(item))}")


def unique() -> bytes:
    """Bytes that are like no others. In letters: digits would be taken for an id that changes each time."""
    return b'"\\u0000unread:%s"' % (b"%x" % next(_numbers)).translate(_LETTERS)


_numbers = itertools.count(1 << 64)
_LETTERS = bytes.maketrans(b"0123456789abcdef", b"ghijklmnopqrstuv")


def text(value: str) -> bytes:
    """The bytes of a text, quoted; lone surrogates included."""
    if type(value) is not str:
        value = str.__str__(value)
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate
        return b'"' + value.encode("utf-8", "surrogatepass") + b'"'


def _integer(number: int) -> bytes:
    number = int.__index__(number)
    if number.bit_length() > _LONGEST_INTEGER * 3:
        return b"%x" % number
    return b"%d" % number


def _number(number: float) -> bytes:
    number = float.__float__(number)
    if not math.isfinite(number):
        return b"null"  # as JSON writers have it
    whole = abs(number) < LARGEST_WHOLE_FLOAT and number.is_integer()
    return _integer(int(number)) if whole else orjson.dumps(number)


_WRITERS: Final[dict[type, Any]] = {
    str: text,
    int: _integer,
    float: _number,
    Enum: _enumerated,
    # Of their subclasses, which may print themselves as they like.
    datetime: lambda item: text(datetime.isoformat(item, " ")),
    date: lambda item: text(date.isoformat(item)),
    time: lambda item: text(time.isoformat(item)),
    timedelta: lambda item: text(timedelta.__str__(item)),
    Decimal: lambda item: text(Decimal.__str__(item)),
    complex: lambda item: text(complex.__str__(item)),
    UUID: lambda item: text(UUID.__str__(item)),
    PurePath: lambda item: text(PurePath.__str__(item)),
}
SCALARS: Final = frozenset({*_WRITERS, bytes, bytearray, memoryview, type, type(None), range})
"""What is written here, with all that descends from it."""
