"""Canonical bytes of any value whatsoever, by a walk with an explicit stack: depth and cycles cannot hurt it.

No method of a foreign object is ever called, and the time is bounded: a module with all that hangs on it is given up
after 5,000 nodes.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections import deque
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

import orjson

from otel_loopguard.core.texts import loosened, utf8

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATETIME

LARGEST_WHOLE_FLOAT = 1e16
"""From here on floats are written with an exponent, and stay as they are."""
_MOST_NODES = 5_000
_LONGEST_INTEGER = 4_300  # digits that Python converts to text without a complaint


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


def written(value: Any, *, loose: bool) -> bytes:
    """The canonical bytes by our own writer."""
    out: list[bytes] = []
    stack: list[Any] = [value]
    inside: dict[int, int] = {}
    name = ""
    nodes = 0
    while stack:
        item = stack.pop()
        if type(item) is _Raw:
            out.append(item.data)
            continue
        if type(item) is _Leave:
            inside.pop(id(item.container), None)
            continue
        if type(item) is _Member:
            name, item = item.name, item.value
        else:
            name = ""
        nodes += 1
        if nodes > _MOST_NODES:
            out.append(_beyond(item))
            continue
        if loose and isinstance(item, str):
            item = loosened(item, name)
        children = _children(item)
        if children is None:
            out.append(_scalar(item))
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


def _children(item: Any) -> list[Any] | None:
    """What is written for a container, in order; None for a scalar."""
    if isinstance(item, dict):
        return _members(item)
    for sequence in _SEQUENCES:
        if isinstance(item, sequence):
            return _joined(list(sequence.__iter__(item)), b"[", b"]")
    if isinstance(item, (set, frozenset)):
        parts = sorted(_flat(element) for element in item)
        return _joined([_Raw(part) for part in parts], b'{"\\u0000set":[', b"]}")
    if isinstance(item, _SCALARS):
        return None
    fields = _fields(item)
    return None if fields is None else _members(fields)


_SEQUENCES: tuple[Any, ...] = (list, tuple, deque)
_SCALARS = (
    str, int, float, bytes, bytearray, memoryview, complex, Enum, datetime, date, time, timedelta, Decimal, UUID,
    PurePath, type, type(None), range,
)  # fmt: skip


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
        parts.append(_Member(key, value) if isinstance(key, str) else value)
    parts.append(_Raw(b"}"))
    return parts


_first = operator.itemgetter(0)


def _key(key: Any) -> tuple[bytes, bytes]:
    """What a key is sorted by (its own bytes, as orjson sorts), and how it is written."""
    if isinstance(key, str):
        return utf8(str.__str__(key)), _text(key)
    flat = _flat(key)
    return flat, flat if flat.startswith(b'"') else b'"' + flat + b'"'


def _flat(item: Any, depth: int = 0) -> bytes:
    """A set's element or a dictionary's key. They are hashable, so they cannot hold themselves."""
    if isinstance(item, (tuple, frozenset)) and depth < _DEEPEST_KEY:
        parts = [_flat(part, depth + 1) for part in item]
        return b"{" + b",".join(sorted(parts)) + b"}" if isinstance(item, frozenset) else b"(" + b",".join(parts) + b")"
    return _scalar(item)


_DEEPEST_KEY = 20


def _fields(item: Any) -> dict[Any, Any] | None:
    """The fields of a dataclass, pydantic model or any other plain object, read without running its code."""
    fields: dict[Any, Any] = {}
    try:
        fields.update(object.__getattribute__(item, "__dict__"))
    except (AttributeError, TypeError, ValueError):
        fields = {}
    for klass in type(item).__mro__:
        slots = klass.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else tuple(slots):
            member = klass.__dict__.get(slot)
            if type(member).__name__ == "member_descriptor":
                try:
                    fields[slot] = member.__get__(item)  # type: ignore[union-attr]
                except AttributeError:  # a slot that was never set
                    continue
    public = {key: value for key, value in fields.items() if not str(key).startswith("__")}
    return public or None


def _scalar(item: Any) -> bytes:
    if item is None:
        return b"null"
    if item is True:
        return b"true"
    if item is False:
        return b"false"
    if isinstance(item, Enum):
        return (
            _scalar(object.__getattribute__(item, "_value_")) if not isinstance(item, str) else _text(str.__str__(item))
        )
    if isinstance(item, str):
        return _text(item)
    if isinstance(item, int):
        return _integer(int(item))
    if isinstance(item, float):
        return _number(float(item))
    return _other_scalar(item)


def _other_scalar(item: Any) -> bytes:
    if type(item) in _PRINTABLE:
        return _text(f"{item}")
    try:
        content = memoryview(item)  # bytes, arrays, and whatever else lies in memory as one block
    except (TypeError, ValueError):
        return _type(item)
    return b'"\\u0000bytes:%d:%s"' % (
        content.nbytes,
        hashlib.blake2b(content.tobytes(), digest_size=16).hexdigest().encode(),
    )


_PRINTABLE = frozenset({datetime, date, time, timedelta, Decimal, UUID, complex, range, *PurePath.__subclasses__()})


def _type(item: Any) -> bytes:
    kind = item if isinstance(item, type) else type(item)
    return _text(f"\0{kind.__module__}.{kind.__qualname__}")


def _beyond(item: Any) -> bytes:
    """What is left of a value of over 5,000 nodes: written in C if it is JSON, else unique, so never a repeat."""
    try:
        return orjson.dumps(item.value if type(item) is _Member else item, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError):
        return b'"\\u0000object:%x"' % id(item)


def _text(text: str) -> bytes:
    if type(text) is not str:
        text = str.__str__(text)
    try:
        return orjson.dumps(text)
    except TypeError:  # a lone surrogate
        return b'"' + text.encode("utf-8", "surrogatepass") + b'"'


def _integer(number: int) -> bytes:
    if number.bit_length() > _LONGEST_INTEGER * 3:
        return b"%x" % number
    return b"%d" % number


def _number(number: float) -> bytes:
    if not math.isfinite(number):
        return b"null"  # as JSON writers have it
    whole = abs(number) < LARGEST_WHOLE_FLOAT and number.is_integer()
    return _integer(int(number)) if whole else orjson.dumps(number)
