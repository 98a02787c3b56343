"""Canonical bytes of any value whatsoever, by a walk with an explicit stack: depth and cycles cannot hurt it.

No method of a foreign object is ever called, and the time is bounded: a module with all that hangs on it is given up
after 5,000 nodes. Where a value resists all the same, it is its type.
"""

from __future__ import annotations

import operator
from collections import deque
from typing import Any

from otel_loopguard.core.values import fast_json, introspect
from otel_loopguard.core.values.normalise import normalise_text, utf8
from otel_loopguard.core.values.scalars import SCALARS, scalar, text, type_text, unique

_MOST_NODES = 5_000


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
        if base in SCALARS:
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
