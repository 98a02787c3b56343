"""Encode any value as canonical bytes, with an explicit stack: depth and cycles cannot hurt it.

No method of a foreign object is ever called, and the time is bounded: after 5,000 nodes the rest of a value, such as a
module with everything in it, is not walked any more. A value that resists all the same is encoded as its type.

An opaque object, such as an iterator or a data frame of another language, cannot be read. As an argument it is encoded
as its type. As a result it never has the same bytes twice, because it may hold something new.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
import threading
import types
from collections import deque
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

import orjson

from otel_loopguard.core.values import fast_json, introspect
from otel_loopguard.core.values.normalise import normalise_text, utf8

LARGEST_WHOLE_FLOAT = 1e16
"""Larger floats are written with an exponent and stay floats."""
_MOST_NODES = 5_000
_DEEPEST_KEY = 20
_LONGEST_INTEGER = 4_300  # digits that Python converts to text without an error

_SEQUENCES = frozenset({list, tuple, deque})
_SETS = frozenset({set, frozenset})
_PRINTABLE = frozenset({datetime, date, time, timedelta, Decimal, UUID, complex, range, *PurePath.__subclasses__()})
_WITHOUT_CONTENT = frozenset(
    {
        types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType, types.ModuleType,
        types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType, type(Ellipsis),
        type(NotImplemented), type(threading.Lock()), type(threading.RLock()),
    }
)  # fmt: skip
"""Types with a large state, none of which is a result."""


class _Raw:
    """Bytes that are written as they are."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class _Leave:
    """Marks the end of a container: after it, the same container is no cycle.

    It holds the container itself, so that no other object gets its identity in between.
    """

    __slots__ = ("container",)

    def __init__(self, container: Any) -> None:
        self.container = container


class _Member:
    """A value with its key: under some keys line breaks are folded."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value


def walk(value: Any, *, fold_blanks: bool, opaque_is_unique: bool = False) -> bytes:
    """Encode a value without orjson. ``opaque_is_unique``: an opaque object has other bytes each time."""
    try:
        return _walk(value, fold_blanks=fold_blanks, opaque_is_unique=opaque_is_unique)
    except Exception:  # noqa: BLE001 - the last resort: every value has bytes, whatever it is made of
        return unique_bytes() if opaque_is_unique else _type_bytes(value)


def unique_bytes() -> bytes:
    """Return bytes that are like no others. They are letters, because digits would be masked as an id."""
    return b'"\\u0000unread:%s"' % (b"%x" % next(_numbers)).translate(_LETTERS)


_numbers = itertools.count(1 << 64)
_LETTERS = bytes.maketrans(b"0123456789abcdef", b"ghijklmnopqrstuv")


def _walk(value: Any, *, fold_blanks: bool, opaque_is_unique: bool) -> bytes:
    out: list[bytes] = []
    stack: list[Any] = [value]
    inside: dict[int, int] = {}
    nodes = 0
    while stack:
        item, name = stack.pop(), ""
        kind = type(item)
        if kind is _Raw:
            out.append(item.data)
            continue
        if kind is _Leave:
            inside.pop(id(item.container), None)
            continue
        if kind is _Member:
            name, item = item.name, item.value
        nodes += 1
        if nodes > _MOST_NODES:
            out.append(_unwalked(item, opaque_is_unique=opaque_is_unique))
            continue
        if fold_blanks and introspect.is_a(item, str):
            item = normalise_text(str.__str__(item), name)
        children = _children(item, opaque_is_unique=opaque_is_unique)
        if children is None:
            out.append(_scalar(item, opaque_is_unique=opaque_is_unique))
        elif id(item) in inside:
            out.append(b'"\\u0000cycle:%d"' % (len(inside) - inside[id(item)]))
        else:
            inside[id(item)] = len(inside)
            stack.append(_Leave(item))
            stack.extend(reversed(children))
    return b"".join(out)


def _unwalked(item: Any, *, opaque_is_unique: bool) -> bytes:
    """Encode the rest of a value of over 5,000 nodes: with orjson if it is JSON, else unlike any other object."""
    try:
        return fast_json.dumps(item.value if type(item) is _Member else item)
    except (TypeError, ValueError, RecursionError):
        return unique_bytes() if opaque_is_unique else b'"\\u0000object:%x"' % id(item)


# Containers


def _children(item: Any, *, opaque_is_unique: bool) -> list[Any] | None:
    """List the parts of a container in order; None for a scalar."""
    for base in introspect.classes(type(item)):
        if base is dict:
            return _members(item)
        if base in _SEQUENCES:
            return _with_commas(list(base.__iter__(item)), b"[", b"]")  # type: ignore[attr-defined]  # a C type's own method
        if base in _SETS:
            parts = sorted(_hashable(element) for element in base.__iter__(item))  # type: ignore[attr-defined]  # a C type's own method
            return _with_commas([_Raw(part) for part in parts], b'{"\\u0000set":[', b"]}")
        if base in _SCALARS:
            return None
    fields = introspect.fields(item)
    return _members(fields) if fields and not (opaque_is_unique and introspect.is_opaque(item)) else None


def _with_commas(items: list[Any], opening: bytes, closing: bytes) -> list[Any]:
    parts: list[Any] = [_Raw(opening)]
    for number, item in enumerate(items):
        if number:
            parts.append(_COMMA)
        parts.append(item)
    parts.append(_Raw(closing))
    return parts


_COMMA = _Raw(b",")


def _members(mapping: dict[Any, Any]) -> list[Any]:
    pairs = sorted(((*_key(key), key, value) for key, value in dict.items(mapping)), key=operator.itemgetter(0))
    parts: list[Any] = [_Raw(b"{")]
    for number, (_, name, key, value) in enumerate(pairs):
        if number:
            parts.append(_COMMA)
        parts.append(_Raw(name + b":"))
        parts.append(_Member(str.__str__(key), value) if introspect.is_a(key, str) else value)
    parts.append(_Raw(b"}"))
    return parts


def _key(key: Any) -> tuple[bytes, bytes]:
    """Return the bytes that a key is sorted by (its own, as orjson does it) and the bytes that are written for it."""
    if introspect.is_a(key, str):
        return utf8(str.__str__(key)), _text(key)
    data = _hashable(key)
    return data, data if data.startswith(b'"') else b'"' + data + b'"'


def _hashable(item: Any, depth: int = 0) -> bytes:
    """Encode an element of a set or a key of a dictionary. Both are hashable, so they cannot contain themselves."""
    if depth < _DEEPEST_KEY:
        if introspect.is_a(item, tuple):
            return b"(" + b",".join([_hashable(part, depth + 1) for part in tuple.__iter__(item)]) + b")"
        if introspect.is_a(item, frozenset):
            return b"{" + b",".join(sorted(_hashable(part, depth + 1) for part in frozenset.__iter__(item))) + b"}"
    return _scalar(item)


# Scalars


def _scalar(item: Any, *, opaque_is_unique: bool = False) -> bytes:
    if item is None:
        return b"null"
    if item is True:
        return b"true"
    if item is False:
        return b"false"
    kind = type(item)
    if kind in _PRINTABLE:
        return _text(f"{item}")
    for base in introspect.classes(kind):
        encoder = _ENCODERS.get(base)
        if encoder is not None:
            data: bytes = encoder(item)
            return data
    return _other(item, opaque_is_unique=opaque_is_unique)


def _other(item: Any, *, opaque_is_unique: bool) -> bytes:
    if introspect.is_a(item, type):
        return _text(f"\0{introspect.type_name(item)}")
    try:
        content = memoryview(item)  # bytes, arrays, and anything else that is one block of memory
    except (TypeError, ValueError, BufferError):
        if opaque_is_unique and type(item) not in _WITHOUT_CONTENT and introspect.is_opaque(item):
            return unique_bytes()
        return _type_bytes(item)
    return b'"\\u0000bytes:%d:%s"' % (
        content.nbytes,
        hashlib.blake2b(content.tobytes(), digest_size=16).hexdigest().encode(),
    )


def _type_bytes(item: Any) -> bytes:
    """Encode an object without readable content as its type."""
    return _text(f"\0{introspect.type_name(type(item))}")


def _text(value: str) -> bytes:
    """Encode a text in quotes, lone surrogates included."""
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


def _float(number: float) -> bytes:
    number = float.__float__(number)
    if not math.isfinite(number):
        return b"null"  # as JSON encoders have it
    whole = abs(number) < LARGEST_WHOLE_FLOAT and number.is_integer()
    return _integer(int(number)) if whole else orjson.dumps(number)


_ENCODERS: Final[dict[type, Any]] = {
    str: _text,
    int: _integer,
    float: _float,
    Enum: lambda item: _scalar(object.__getattribute__(item, "_value_")),
    # For subclasses of these types, which may have a __str__ of their own.
    datetime: lambda item: _text(datetime.isoformat(item, " ")),
    date: lambda item: _text(date.isoformat(item)),
    time: lambda item: _text(time.isoformat(item)),
    timedelta: lambda item: _text(timedelta.__str__(item)),
    Decimal: lambda item: _text(Decimal.__str__(item)),
    complex: lambda item: _text(complex.__str__(item)),
    UUID: lambda item: _text(UUID.__str__(item)),
    PurePath: lambda item: _text(PurePath.__str__(item)),
}
_SCALARS: Final = frozenset({*_ENCODERS, bytes, bytearray, memoryview, type, type(None), range})
"""Types without members, subclasses included."""
