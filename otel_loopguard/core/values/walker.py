"""Canonical bytes of any value whatsoever, by a walk with an explicit stack: depth and cycles cannot hurt it.

No method of a foreign object is ever called, and the time is bounded: a module with all that hangs on it is given up
after 5,000 nodes. Where a value resists all the same, it is its type.

What cannot be read, as an iterator or a data frame of another language, is its type where it is an argument. As a
result it is never the same twice, because nobody can know that it brought nothing new.
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

_MOST_NODES = 5_000
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


class _Raw:
    """Bytes that are to be written as they are."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class _Leave:
    """Marks the end of a container: from here on it may be met again without being a cycle.

    It holds the container itself, so that no other object gets its identity meanwhile.
    """

    __slots__ = ("container",)

    def __init__(self, container: Any) -> None:
        self.container = container


def written(value: Any, *, loose: bool, unread: bool = False) -> bytes:
    """The canonical bytes by our own writer. ``unread``: what cannot be read is never the same twice."""
    try:
        return _walked(value, loose=loose, unread=unread)
    except Exception:  # noqa: BLE001 - the last resort: whatever a value is made of, it has bytes
        return unique() if unread else type_text(value)


def _walked(value: Any, *, loose: bool, unread: bool) -> bytes:
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
            out.append(_beyond(item, unread=unread))
            continue
        if loose and introspect.is_a(item, str):
            item = normalise_text(str.__str__(item), name)
        children = _children(item, unread=unread)
        if children is None:
            out.append(scalar(item, unread=unread))
        elif id(item) in inside:
            out.append(b'"\\u0000cycle:%d"' % (len(inside) - inside[id(item)]))
        else:
            inside[id(item)] = len(inside)
            stack.append(_Leave(item))
            stack.extend(reversed(children))
    return b"".join(out)


class _Member:
    """A value together with the name it stands under: some names fold line breaks."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value


def _children(item: Any, *, unread: bool) -> list[Any] | None:
    """What is written for a container, in order; None for a scalar."""
    for base in introspect.classes(type(item)):
        if base is dict:
            return _members(item)
        if base in _SEQUENCES:
            return _joined(list(base.__iter__(item)), b"[", b"]")  # type: ignore[attr-defined]
        if base in _SETS:
            parts = sorted(_flat(element) for element in base.__iter__(item))  # type: ignore[attr-defined]
            return _joined([_Raw(part) for part in parts], b'{"\\u0000set":[', b"]}")
        if base in _SCALARS:
            return None
    fields = introspect.fields(item)
    return _members(fields) if fields and not (unread and introspect.is_hidden(item)) else None


_SEQUENCES = frozenset({list, tuple, deque})
_SETS = frozenset({set, frozenset})


def _joined(items: list[Any], opening: bytes, closing: bytes) -> list[Any]:
    parts: list[Any] = [_Raw(opening)]
    for number, item in enumerate(items):
        if number:
            parts.append(_COMMA)
        parts.append(item)
    parts.append(_Raw(closing))
    return parts


_COMMA = _Raw(b",")


def _members(mapping: dict[Any, Any]) -> list[Any]:
    pairs = sorted(((*_key(key), key, value) for key, value in dict.items(mapping)), key=_first)
    parts: list[Any] = [_Raw(b"{")]
    for number, (_, name, key, value) in enumerate(pairs):
        if number:
            parts.append(_COMMA)
        parts.append(_Raw(name + b":"))
        parts.append(_Member(str.__str__(key), value) if introspect.is_a(key, str) else value)
    parts.append(_Raw(b"}"))
    return parts


_first = operator.itemgetter(0)


def _key(key: Any) -> tuple[bytes, bytes]:
    """What a key is sorted by (its own bytes, as orjson sorts), and how it is written."""
    if introspect.is_a(key, str):
        return utf8(str.__str__(key)), text(key)
    flat = _flat(key)
    return flat, flat if flat.startswith(b'"') else b'"' + flat + b'"'


def _flat(item: Any, depth: int = 0) -> bytes:
    """A set's element or a dictionary's key. They are hashable, so they cannot hold themselves."""
    if depth < _DEEPEST_KEY:
        if introspect.is_a(item, tuple):
            return b"(" + b",".join([_flat(part, depth + 1) for part in tuple.__iter__(item)]) + b")"
        if introspect.is_a(item, frozenset):
            return b"{" + b",".join(sorted(_flat(part, depth + 1) for part in frozenset.__iter__(item))) + b"}"
    return scalar(item)


_DEEPEST_KEY = 20


def _beyond(item: Any, *, unread: bool) -> bytes:
    """What is left of a value of over 5,000 nodes: written in C if it is JSON, else unlike any other."""
    try:
        return fast_json.dumps(item.value if type(item) is _Member else item)
    except (TypeError, ValueError, RecursionError):
        return unique() if unread else b'"\\u0000object:%x"' % id(item)


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
_SCALARS: Final = frozenset({*_WRITERS, bytes, bytearray, memoryview, type, type(None), range})
"""What is written here, with all that descends from it."""
