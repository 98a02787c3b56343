"""Encode any value as canonical bytes, with an explicit stack: depth and cycles cannot hurt it.

No method of a foreign object is ever called, and the time is bounded: a value of over 10,000 nodes that is no JSON, one
of over 8 MB, and one that raises have other bytes each time. As an argument, an object is its class and content, and
its identity if it may hold more than can be read: only equal arguments have equal bytes. As a result it is its content,
and an opaque one, such as an iterator, never has the same bytes twice: it may hold something new.
"""

from __future__ import annotations

import gc
import itertools
import math
import operator
import threading
import types
from collections import deque
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import partial
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import orjson

from otel_loopguard.engine.values import fast_json, introspect
from otel_loopguard.engine.values.hashing import feed
from otel_loopguard.engine.values.identity import identities
from otel_loopguard.engine.values.normalise import Normaliser, utf8
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST_WHOLE_FLOAT = 1e16
"""Larger floats are written with an exponent and stay floats."""
_MOST_NODES = 10_000
_NODES_OF_A_CONTAINER, _NODES_OF_AN_OBJECT, _NODES_OF_A_MEMBER = 3, 6, 3
"""The nodes that each of these counts as, because it takes as long."""
_LARGEST = 8 << 20
"""The most bytes to hash; other work counts as the bytes that could be hashed in its time."""
_WRITTEN_AS_HASHED = 16
"""A byte of JSON that is written counts as so many hashed ones."""
_LARGEST_SCATTERED = 1 << 16
"""The most bytes of a block that is not contiguous: they are collected one by one."""
_LONGEST_WRITTEN = 400_000
"""Letters. A longer text is hashed instead of written."""
_SHORT = 500
_MOST_OWNERS = 8
_DEEPEST_KEY = 20
_SMALL = 1 << 63
_LONGEST_INTEGER = 4_300  # digits that Python converts to text without an error

_SEQUENCES = frozenset({list, tuple, deque})
_SETS = frozenset({set, frozenset})
_CONTAINERS = _SEQUENCES | _SETS | {dict}
_PATHS = (*PurePath.__subclasses__(), *Path.__subclasses__())
_PRINTABLE = frozenset({datetime, date, time, timedelta, Decimal, UUID, complex, range, *_PATHS})
_SINGLETONS = frozenset({type(Ellipsis), type(NotImplemented)})
_WITHOUT_CONTENT = frozenset(
    {
        types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodWrapperType, types.ModuleType,
        types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType, *_SINGLETONS,
        type(threading.Lock()), type(threading.RLock()),
    }
)  # fmt: skip
"""Types whose state is large and no content of a result: functions, modules, locks."""


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
    """A value with the name of its key: under some names line breaks are folded."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value


def walk(value: Any, *, fold_blanks: bool, is_result: bool = False) -> bytes:
    """Return the canonical bytes of arguments, or of a result (``is_result``). ``fold_blanks`` as in ``canonical``."""
    try:
        return _Walk(fold_blanks=fold_blanks, is_result=is_result).encode(value)
    except Exception as error:  # noqa: BLE001 - the last resort: every value has bytes, whatever it is made of
        pass_interrupt(error)
        return unique_bytes()


def is_larger(value: Any, most: int) -> bool:
    """Return True if a value takes more than ``most`` bytes to write, or cannot be measured.

    A part that is in several places counts in each.
    """
    walk = _Walk(fold_blanks=False, is_result=True, most_bytes=most)
    try:
        return len(walk.encode(value)) > most
    except Exception as error:  # noqa: BLE001 - a value that cannot be measured
        pass_interrupt(error)
        return True


def unique_bytes() -> bytes:
    """Return bytes that no other call returns.

    They are a word of letters, because a word with digits would be masked as an id, or compared as a number.
    """
    return b'"\\u0000unread %s"' % (b"%x" % next(_numbers)).translate(_LETTERS)


_numbers = itertools.count(1 << 64)
_LETTERS = bytes.maketrans(b"0123456789abcdef", b"ghijklmnopqrstuv")


class _Walk:
    """The encoding of one value."""

    def __init__(self, *, fold_blanks: bool, is_result: bool, most_bytes: int = _LARGEST) -> None:
        self._fold_blanks = fold_blanks
        self._is_result = is_result
        self._owners: list[Any] = []
        """The objects, and not the containers, that the current part is in."""
        self._normaliser = Normaliser()
        # By identity, because a metaclass may define equality; the first part of each entry keeps its key in use.
        self._kinds: dict[int, tuple[type, list[tuple[str | None, Any]], bool]] = {}
        self._classes: dict[int, tuple[type, bytes]] = {}
        self._hashables: dict[tuple[int, int], tuple[Any, bytes]] = {}
        self._nodes = _MOST_NODES
        self._bytes = most_bytes

    def encode(self, value: Any) -> bytes:
        out: list[bytes] = []
        stack: list[Any] = [value]
        inside: dict[int, int] = {}
        while stack:
            item, name = stack.pop(), ""
            kind = type(item)
            if kind is _Raw:
                out.append(item.data)
                continue
            if kind is int and -_SMALL < item < _SMALL:
                out.append(b"%d" % item)
                continue
            if kind is _Leave:
                inside.pop(id(item.container), None)
                if self._owners and self._owners[-1] is item.container:
                    self._owners.pop()
                continue
            if kind is _Member:
                name, item = item.name, item.value
                kind = type(item)
            if self._fold_blanks and introspect.is_a(item, str) and str.__len__(item) <= _LONGEST_WRITTEN:
                item = self._normaliser.text(str.__str__(item), name)
                kind = type(item)
            if kind in _OF_JSON:
                out.append(self._plain(item, kind))
                continue
            if id(item) in inside:
                out.append(b'"\\u0000cycle:%d"' % (len(inside) - inside[id(item)]))
                continue
            children = self._children(item)
            if children is None:
                out.append(self._scalar(item))
            else:
                inside[id(item)] = len(inside)
                stack.append(_Leave(item))
                stack.extend(reversed(children))
        return b"".join(out)

    def _take(self, nodes: int) -> None:
        self._nodes -= nodes
        if self._nodes < 0:
            raise introspect.TooLargeError

    def _take_bytes(self, size: int) -> None:
        self._bytes -= size
        if self._bytes < 0:
            raise introspect.TooLargeError

    def _unread(self, item: Any) -> bytes:
        """Encode an object without its content: as an argument it is equal to itself, and to nothing else.

        An iterator moves when it is used, so it has other bytes each time. Inside an object, such as an open log file,
        it has the identity of the nearest object around it, as has any part that cannot be referenced weakly.
        """
        if not self._is_result:
            for one in (item, *self._owners[: -_MOST_OWNERS - 1 : -1]):
                number = None if introspect.is_iterator(one) else identities.number(one)
                if number is not None:
                    return b"<#%d>" % number
        return unique_bytes()

    # Containers

    def _children(self, item: Any) -> list[Any] | None:
        """List the parts of a container or object in order; None for a scalar."""
        kind = type(item)
        for base in introspect.classes(kind):
            if base in _CONTAINERS:
                size = base.__len__(item)  # type: ignore[attr-defined]  # a C type's own method
                if size > self._nodes:
                    data = fast_json.dumps(item, exact=not self._is_result)  # raises if it is no JSON
                    self._take_bytes(_WRITTEN_AS_HASHED * len(data))
                    return [_Raw(data)]
                self._take(size * (_NODES_OF_A_MEMBER if base is dict else 1) + _NODES_OF_A_CONTAINER)
            if base is dict:
                return self._members(item)
            if base in _SEQUENCES:
                return _with_commas(list(base.__iter__(item)), b"[", b"]")  # type: ignore[attr-defined]  # a C type's own method
            if base in _SETS:
                parts = sorted(self._hashable(element) for element in base.__iter__(item))  # type: ignore[attr-defined]  # a C type's own method
                return _with_commas([_Raw(part) for part in parts], b'{"\\u0000set":[', b"]}")
            if base in _SCALARS:
                return None
        self._take(_NODES_OF_AN_OBJECT)
        if self._is_result:
            fields, is_opaque = self._fields(item, kind)
            return self._members(fields) if fields and not is_opaque else None
        return None if kind in _WITHOUT_CONTENT and kind not in _READERS else self._parts(item, kind)

    def _parts(self, item: Any, kind: type) -> list[Any] | None:
        """List the parts of an object among the arguments: its class, its content, and its identity if that counts."""
        parts: list[Any] = [_Raw(b"<" + self._class(kind))]
        read = _READERS.get(kind)
        if read is not None:
            parts.append(read(item))
        else:
            (fields, is_opaque), block = self._fields(item, kind), self._block(item)
            if block is not None:
                parts.append(_Raw(block))
            elif not fields or is_opaque:
                parts.append(_Raw(self._unread(item)))
            parts.extend(self._members(fields))
        parts.append(_Raw(b">"))
        self._owners.append(item)
        return parts

    def _fields(self, item: Any, kind: type) -> tuple[dict[Any, Any], bool]:
        """Return the fields of an object, and whether it may hold more than these."""
        known = self._kinds.get(id(kind))
        if known is None:
            known = self._kinds[id(kind)] = kind, introspect.layout(kind), introspect.is_opaque(kind)
        found = introspect.fields(item, known[1], hidden=not self._is_result, most=self._nodes)
        self._take(len(found) * _NODES_OF_A_MEMBER)
        return found, known[2]

    def _class(self, kind: type) -> bytes:
        """Encode a class as its name, and as its identity, too, if the name does not lead to it."""
        known = self._classes.get(id(kind))
        if known is None:
            name = _text(introspect.type_name(kind))
            if not introspect.is_found_by_name(kind):
                name += b"#%d" % (identities.number(kind) or 0)
            known = self._classes[id(kind)] = kind, name
        return known[1]

    def _members(self, mapping: dict[Any, Any]) -> list[Any]:
        pairs = sorted(
            ((*self._key(key), key, value) for key, value in dict.items(mapping)), key=operator.itemgetter(0)
        )
        parts: list[Any] = [_Raw(b"{")]
        for number, (_, name, key, value) in enumerate(pairs):
            if number:
                parts.append(_COMMA)
            parts.append(_Raw(name + b":"))
            # The name counts for a text only.
            has_name = self._fold_blanks and introspect.is_a(value, str) and introspect.is_a(key, str)
            parts.append(_Member(str.__str__(key), value) if has_name else value)
        parts.append(_Raw(b"}"))
        return parts

    def _key(self, key: Any) -> tuple[bytes, bytes]:
        """Return the bytes that a key is sorted by (its own, as orjson does it), and those that are written for it."""
        if introspect.is_a(key, str):
            self._take_bytes(str.__len__(key))
            return utf8(str.__str__(key)), _text(key)
        data = self._hashable(key)
        return data, data if data.startswith(b'"') else b'"' + data + b'"'

    def _hashable(self, item: Any, depth: int = 0) -> bytes:
        """Encode an element of a set or a key of a dictionary. Both are hashable, so they cannot contain themselves.

        What shares its parts is encoded once at each depth.
        """
        kind = type(item)
        if kind in _OF_JSON:
            return self._plain(item, kind)
        for base in (tuple, frozenset) if depth < _DEEPEST_KEY else ():
            if introspect.is_a(item, base):
                known = self._hashables.get((id(item), depth))
                if known is None:
                    self._take(base.__len__(item) + _NODES_OF_A_CONTAINER)
                    parts = [self._hashable(part, depth + 1) for part in base.__iter__(item)]
                    data = b"(%b)" % b",".join(parts) if base is tuple else b"{%b}" % b",".join(sorted(parts))
                    known = self._hashables[id(item), depth] = item, data
                self._take_bytes(len(known[1]))
                return known[1]
        return self._scalar(item)

    # Scalars

    def _plain(self, item: Any, kind: type) -> bytes:
        """Encode a text or a number as ``_scalar`` does, in a fraction of the time: most parts are one of these."""
        if kind is int and -_SMALL < item < _SMALL:
            return b"%d" % item
        if kind is int or (kind is str and len(item) > _LONGEST_WRITTEN):
            return self._scalar(item)
        data = _text(item) if kind is str else _float(item)
        self._bytes -= len(data)
        if self._bytes < 0:
            raise introspect.TooLargeError
        return data

    def _scalar(self, item: Any) -> bytes:
        if item is None:
            return b"null"
        if item is True:
            return b"true"
        if item is False:
            return b"false"
        kind = type(item)
        for base in introspect.classes(kind):
            if base is Enum:
                return self._enum(item, kind)
            encoder = _ENCODERS.get(base)
            if encoder is not None:
                size_of = _SIZES.get(base)
                if size_of is not None:
                    self._take_bytes(size_of(item))
                data: bytes = _text(f"{item}") if kind in _PRINTABLE else encoder(item)
                self._take_bytes(len(data))
                if self._is_result or base in _OF_JSON:
                    return data
                more = b""
                if kind not in _PRINTABLE and (
                    introspect.is_opaque(kind, base) or introspect.fields(item, introspect.layout(kind))
                ):
                    more = self._unread(item)  # a subclass may hold more than its base, such as nanoseconds
                return b"<" + self._class(kind) + data + more + b">"
        return self._other(item, kind)

    def _enum(self, item: Any, kind: type) -> bytes:
        name, value = object.__getattribute__(item, "_name_"), object.__getattribute__(item, "_value_")
        if self._is_result:
            return self._hashable(value)
        return b"<" + self._class(kind) + (self._hashable(value) if name is None else _text(name)) + b">"

    def _other(self, item: Any, kind: type) -> bytes:
        if introspect.is_a(item, type):
            return _text(f"\0{introspect.type_name(item)}") if self._is_result else b"<" + self._class(item) + b">"
        block = self._block(item)
        if block is not None:
            return block
        if kind in _SINGLETONS:
            return _type_bytes(item)
        if self._is_result:
            has_content = kind not in _WITHOUT_CONTENT and introspect.is_opaque(kind)
            return unique_bytes() if has_content else _type_bytes(item)
        return self._unread(item)

    def _block(self, item: Any) -> bytes | None:
        """Encode bytes, arrays, and anything else that is one block of memory; None for any other value."""
        try:
            content = memoryview(item)
        except (TypeError, ValueError, BufferError) as error:
            pass_interrupt(error)
            return None
        if "O" in content.format:  # addresses of objects
            return None
        self._take_bytes(content.nbytes)
        if not content.contiguous and content.nbytes > _LARGEST_SCATTERED:
            raise introspect.TooLargeError
        digest = _digest(content.tobytes())
        form = "" if content.format == "B" and content.ndim == 1 else f":{content.shape}:{content.format}"
        return b'"\\u0000bytes:%d%s %s"' % (content.nbytes, form.encode(), digest)


def _with_commas(items: list[Any], opening: bytes, closing: bytes) -> list[Any]:
    parts: list[Any] = [_COMMA] * (2 * len(items) + 1)
    parts[1::2] = items
    parts[0] = _Raw(opening)
    parts[max(1, len(parts) - 1) :] = [_Raw(closing)]
    return parts


_COMMA = _Raw(b",")


def _digest(data: bytes) -> bytes:
    """Hash bytes, with letters for digits; see ``unique_bytes``."""
    state = blake2b(digest_size=16)
    feed(state, data)
    return state.hexdigest().encode().translate(_LETTERS)


def _type_bytes(item: Any) -> bytes:
    """Encode an object without readable content as its type."""
    return _text(f"\0{introspect.type_name(type(item))}")


def _text(value: str) -> bytes:
    """Encode a text in quotes, lone surrogates included; a long one as its hash."""
    if type(value) is not str:
        value = str.__str__(value)
    if len(value) > _LONGEST_WRITTEN:
        return b'"\\u0000text:%d %s"' % (len(value), _digest(utf8(value)))
    if len(value) < _SHORT and value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return b'"%b"' % value.encode()  # orjson takes longer: it begins with a kilobyte
    try:
        return orjson.dumps(value)
    except TypeError as error:  # a lone surrogate
        pass_interrupt(error)
        return b'"' + value.encode("utf-8", "surrogatepass") + b'"'


def _integer(number: int) -> bytes:
    number = int.__index__(number)
    if number.bit_length() > _LONGEST_INTEGER * 3:
        return b"%#x" % number
    return b"%d" % number


def _float(number: float) -> bytes:
    number = float.__float__(number)
    if not math.isfinite(number):  # as Python's encoder has it; orjson would write null
        return b"NaN" if number != number else b"Infinity" if number > 0 else b"-Infinity"  # noqa: PLR0124 - the test for NaN
    whole = abs(number) < LARGEST_WHOLE_FLOAT and number.is_integer()
    return _integer(int(number)) if whole else orjson.dumps(number)


_ENCODERS: Final[dict[type, Any]] = {
    str: _text,
    int: _integer,
    float: _float,
    range: lambda item: _text(range.__str__(item)),
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
_OF_JSON: Final = frozenset({str, int, float})
_SIZES: Final[dict[type, Any]] = {
    str: str.__len__,
    int: lambda number: int.bit_length(number) >> 3,
    Decimal: Decimal.__sizeof__,
}
_SCALARS: Final = frozenset({*_ENCODERS, Enum, bytes, bytearray, memoryview, type, type(None)})
"""Types without members, subclasses included."""
_READERS: Final[dict[type, Callable[[Any], Any]]] = {
    partial: lambda item: [item.func, item.args, item.keywords, vars(item)],
    slice: lambda item: [item.start, item.stop, item.step],
    timezone: timezone.__getinitargs__,  # type: ignore[attr-defined]  # as pickle reads it
    types.MethodType: lambda item: [item.__func__, item.__self__],
    types.MethodDescriptorType: lambda item: [item.__objclass__, item.__name__],
    types.WrapperDescriptorType: lambda item: [item.__objclass__, item.__name__],
    types.MappingProxyType: gc.get_referents,  # the mapping itself: to iterate may run its own methods
    **dict.fromkeys(map(type, ({}.keys(), {}.values(), {}.items())), list),
}
"""Functions that read the content of C types. They are not used for subclasses, which may hold more."""
