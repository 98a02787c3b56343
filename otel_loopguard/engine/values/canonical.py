"""Encode any Python value as canonical bytes: equal values have equal bytes, whatever the order of their keys.

orjson encodes plain JSON in a microsecond. The walker encodes everything else with an explicit stack, so that depth,
cycles and hostile objects cannot hurt it. Both give the same bytes for the same value, which a test compares. No method
of a foreign object is ever called.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from otel_loopguard.engine.values import fast_json, introspect
from otel_loopguard.engine.values.normalise import LONGEST_NORMALISED, PARAMETERS_WITHOUT_LINES, Normaliser, utf8
from otel_loopguard.engine.values.walker import LARGEST_WHOLE_FLOAT, unique_bytes, walk
from otel_loopguard.interrupts import pass_interrupt

_WHOLE_FLOAT = re.compile(r"\.0(?=[,}\]]|\Z)")
_BLOCKS = frozenset({bytes, bytearray, memoryview})
LARGEST_RESULT = 8 << 20
"""Letters or bytes. A hash of more takes too long, so a larger result equals no other."""
_LARGEST_BLOCK = 4 << 20
"""Bytes of a ``bytes``, ``bytearray`` or ``memoryview``, which may have to be decoded, too."""
_LONGEST_END = 4_096


def canonical(value: Any, *, fold_blanks: bool = True) -> bytes:
    """Encode a call's arguments.

    ``fold_blanks`` folds blanks in single-line strings and decodes strings that hold JSON or a Python literal. It is
    off for tools that write, where blanks are content. Arguments that are one string are decoded in both cases.
    """
    if type(value) is not dict:
        value = introspect.as_builtin(value)
        if type(value) is str:
            value = Normaliser(_as_fragment).literal(value)
            if type(value) is orjson.Fragment:
                return orjson.dumps(value)
        if value is None:
            return b"{}"
    try:
        if type(value) is dict:
            text = fast_json.flat_text(value)
            if text is not None:
                if not (fold_blanks and _may_fold(text)):
                    return fast_json.dumps_known(value)
                if len(text) <= LONGEST_NORMALISED:
                    return fast_json.dumps(_normalised(value, "", Normaliser(_as_fragment)))
        plain = fast_json.dumps(value, exact=True)
        if len(plain) > LONGEST_NORMALISED or not _may_need_normalising(plain):
            return plain
        return fast_json.dumps(_normalised(value, "", Normaliser(_as_fragment) if fold_blanks else None))
    except Exception as error:  # noqa: BLE001 - not plain JSON, for whatever reason
        pass_interrupt(error)
        return walk(value, fold_blanks=fold_blanks)


def result_bytes(value: Any) -> bytes:
    """Encode a result: text as it is, anything else canonical but not normalised.

    An opaque object gives other bytes each time, because it may hold something new.
    """
    if type(value) not in introspect.BUILTINS:
        value = introspect.as_builtin(value)
    if type(value) is str:
        return utf8(value if len(value) <= LARGEST_RESULT else ends_of(value))
    try:
        if type(value) in _BLOCKS:
            return _block(value)
        return fast_json.dumps(value)
    except Exception as error:  # noqa: BLE001 - not plain JSON, for whatever reason
        pass_interrupt(error)
        return walk(value, fold_blanks=False, is_result=True)


def ends_of(text: str) -> str:
    """Cut the middle out of a text that is too long. The rest is still like no other, because the middle may be new."""
    return f"{text[:_LONGEST_END]}{unique_bytes().decode()}{text[-_LONGEST_END:]}"


def _block(value: bytes | bytearray | memoryview) -> bytes:
    if type(value) is memoryview and not value.contiguous and value.nbytes > _LONGEST_END:
        return unique_bytes()  # its bytes are collected one by one
    size = value.nbytes if type(value) is memoryview else len(value)
    if size <= _LARGEST_BLOCK:
        return bytes(value)
    content = memoryview(value).cast("B")
    return bytes(content[:_LONGEST_END]) + unique_bytes() + bytes(content[-_LONGEST_END:])


def _may_fold(text: str) -> bool:
    """Return False if normalising changes no text of a value. ``text``: all of them, as ``flat_text`` returns them.

    Nearly every call passes here. A search for one character costs next to nothing, a search for two several times as
    much, and the exact pattern a hundred times.
    """
    return (
        "  " in text
        or "\n" in text
        or "\t" in text
        or "\r" in text
        or ("[" in text and " [" in text)
        or ("{" in text and " {" in text)
        or ("(" in text and " (" in text)
    )


def _may_need_normalising(plain: bytes) -> bool:
    """Return False if normalising changes nothing in a value. ``plain``: its JSON, without blanks outside of texts."""
    text = plain.decode()
    return (
        (" " in text and ("  " in text or '" ' in text or ' "' in text))
        or ("[" in text and '"[' in text)
        or ("{" in text[1:] and '"{' in text)
        or ("(" in text and '"(' in text)
        or (
            "\\" in text
            and ("\\t" in text or "\\r" in text or ("\\n" in text and ('"\\n' in text or _has_query(text))))
        )
        or ("." in text and _WHOLE_FLOAT.search(text) is not None)
    )


def _has_query(text: str) -> bool:
    return any(f'"{name}":"' in text for name in PARAMETERS_WITHOUT_LINES)


def _as_fragment(value: Any) -> Any:
    """Write a value that orjson has read, if nothing in it is normalised; return any other value as it is."""
    try:
        data = fast_json.dumps_known(value)
    except TypeError as error:  # too many levels
        pass_interrupt(error)
        return value
    return value if _may_need_normalising(data) else orjson.Fragment(data)


def _normalised(value: Any, name: str, normaliser: Normaliser | None) -> Any:
    """Turn whole floats into integers, and normalise strings if there is a normaliser. ``name``: the value's key."""
    kind = type(value)
    if kind is str:
        found = value if normaliser is None else normaliser.text(value, name)
        return found if isinstance(found, str) else _normalised(found, name, normaliser)
    if kind is float:
        return int(value) if abs(value) < LARGEST_WHOLE_FLOAT and value.is_integer() else value
    if kind is dict:
        # In one order, as the walker has it: the room for texts is used up in that order.
        return {key: _normalised(item, key, normaliser) for key, item in sorted(value.items())}
    if kind is list or kind is tuple:
        return [item if type(item) in _AS_IT_IS else _normalised(item, "", normaliser) for item in value]
    return value


_AS_IT_IS = frozenset({int, bool, type(None)})
