"""Encode any Python value as canonical bytes: equal values have equal bytes, whatever the order of their keys.

orjson encodes plain JSON in a microsecond. The walker encodes everything else with an explicit stack, so that depth,
cycles and hostile objects cannot hurt it. Both give the same bytes for the same value, which a test compares. No method
of a foreign object is ever called.
"""

from __future__ import annotations

import re
from typing import Any

from otel_loopguard.core.values import fast_json, introspect
from otel_loopguard.core.values.normalise import normalise_text, parse_literal, utf8
from otel_loopguard.core.values.walker import LARGEST_WHOLE_FLOAT, walk

# The exact test: 1.0 becomes 1, blanks fold, and a string may hold JSON.
_NEEDS_NORMALISING = re.compile(r'\.0(?=[,}\]]|\Z)|  |\\[tnr]|" | "|"[\[{(]')
_LONGEST_SEARCHED = 1_000_000
_BLOCKS = frozenset({bytes, bytearray, memoryview})


def canonical(value: Any, *, fold_blanks: bool = True) -> bytes:
    """Encode a call's arguments.

    ``fold_blanks`` folds blanks in single-line strings and decodes strings that hold JSON or a Python literal. It is
    off for tools that write, where blanks are content. Arguments that are one string are decoded in both cases.
    """
    if type(value) is not dict:
        value = introspect.as_builtin(value)
        if type(value) is str:
            value = parse_literal(value)
    if value is None:
        return b"{}"
    try:
        plain = fast_json.dumps(value)
        if len(plain) > _LONGEST_SEARCHED or not _may_need_normalising(plain.decode()):
            return plain
        return fast_json.dumps(_normalise(value, "", fold_blanks=fold_blanks))
    except Exception:  # noqa: BLE001 - not plain JSON, for whatever reason
        return walk(value, fold_blanks=fold_blanks)


def result_bytes(value: Any) -> bytes:
    """Encode a result: text as it is, anything else canonical but not normalised.

    An opaque object gives other bytes each time, because it may hold something new.
    """
    if type(value) not in introspect.BUILTINS:
        value = introspect.as_builtin(value)
    if type(value) is str:
        return utf8(value)
    try:
        if type(value) in _BLOCKS:
            return bytes(value)
        return fast_json.dumps(value)
    except Exception:  # noqa: BLE001 - not plain JSON, for whatever reason
        return walk(value, fold_blanks=False, is_result=True)


def _may_need_normalising(text: str) -> bool:
    """Return False for nearly every call, at little cost.

    Every call passes here. A search for one character costs next to nothing, a search for two costs ten times that, and
    the exact pattern a hundred times.
    """
    return (
        (" " in text and ("  " in text or '" ' in text or ' "' in text))
        or "\\" in text
        or ("." in text and ".0" in text)
        or ("[" in text and '"[' in text)
        or ("{" in text[1:] and '"{' in text)
        or ("(" in text and '"(' in text)
    ) and _NEEDS_NORMALISING.search(text) is not None


def _normalise(value: Any, name: str, *, fold_blanks: bool) -> Any:
    """Turn whole floats into integers and, with ``fold_blanks``, normalise strings. ``name``: the value's key."""
    if isinstance(value, str):
        found = normalise_text(value, name) if fold_blanks else value
        return found if isinstance(found, str) else _normalise(found, name, fold_blanks=fold_blanks)
    if isinstance(value, float):
        return int(value) if abs(value) < LARGEST_WHOLE_FLOAT and value.is_integer() else value
    if isinstance(value, dict):
        return {key: _normalise(item, key, fold_blanks=fold_blanks) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normalise(item, "", fold_blanks=fold_blanks) for item in value]
    return value
