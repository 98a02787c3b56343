"""Encode plain JSON values with orjson, after a check that orjson can bear them.

orjson refuses lists and dictionaries that are too deep, but follows tuples until the process crashes. A value that
holds the same list twice at each of sixty levels would keep it busy for years. So values and letters are counted first,
but not the letters of keys.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import orjson

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATETIME
_OPTIONS |= orjson.OPT_PASSTHROUGH_DATACLASS
_CONTAINERS = frozenset({dict, list, tuple})
_DEEPEST = 200
_SIZED = _CONTAINERS | {str}
_EXACT = frozenset({int, bool, type(None)})
_UNSIZED = _EXACT | {float}
_LARGEST = 400_000
"""The most values and letters that orjson is given."""
_VALUES_OF_A_CONTAINER = 4
"""A container counts as so many values more, because it takes as long."""
_MOST_FLAT = 500


class NotPlainError(TypeError):
    """The value needs the walker."""


def dumps(value: Any, *, exact: bool = False) -> bytes:
    """Encode a value with sorted keys; raise if it is not plain JSON, or too deep or too large.

    ``exact``: raise also for UUIDs and members of enumerations. orjson writes them as texts and as their values, and
    then members of two enumerations would be equal.
    """
    if type(value) is dict and flat_text(value) is not None:
        return dumps_known(value)
    if type(value) not in _UNSIZED and not _fits(value, exact=exact):
        raise NotPlainError
    data = orjson.dumps(value, option=_OPTIONS)
    if b"null" in data and _holds_non_finite(value):  # orjson writes these floats as null, too
        raise NotPlainError
    return data


def flat_text(value: dict[Any, Any]) -> str | None:
    """Return all texts in a dictionary, with a blank before and after each; None if the dictionary is not flat.

    It is flat if it holds up to 500 texts, integers, booleans, None, and lists, tuples or dictionaries of these: nearly
    all arguments are. A float makes it not flat.
    """
    if len(value) > _MOST_FLAT:
        return None
    texts = [""]
    for item in value.values():
        kind = type(item)
        if kind is str:
            texts.append(item)
        elif kind not in _EXACT:
            if kind not in _CONTAINERS or len(item) > _MOST_FLAT:
                return None
            for part in item.values() if kind is dict else item:
                kind = type(part)
                if kind is str:
                    texts.append(part)
                elif kind not in _EXACT:
                    return None
    if sum(map(len, texts)) > _LARGEST:  # one text may be there many times
        return None
    texts.append("")
    return " ".join(texts)


def dumps_known(value: Any) -> bytes:
    """Encode a value that has a ``flat_text``, or that orjson has read.

    Raise if a key is no text, or if it has too many levels.
    """
    return orjson.dumps(value, None, _OPTIONS)


def _holds_non_finite(value: Any) -> bool:
    """Return True if a float within a value, which is not too deep, is infinite or no number."""
    kind = type(value)
    if kind not in _CONTAINERS:
        return kind is float and not isfinite(value)
    for item in value.values() if kind is dict else value:
        kind = type(item)
        if kind is float:
            if item - item != 0.0:  # as ``isfinite`` has it, without a call
                return True
        elif kind in _CONTAINERS and _holds_non_finite(item):
            return True
    return False


def _fits(value: Any, *, exact: bool) -> bool:
    """Return True if a value has few enough levels, values and letters for orjson; ``exact`` as in ``dumps``."""
    level, size = [value], 0
    for _ in range(_DEEPEST):
        if not _SIZED.issuperset(map(type, level)):
            if exact:
                return False
            level = [item for item in level if type(item) in _SIZED]
        if not level:
            return True
        size += sum(map(len, level)) + _VALUES_OF_A_CONTAINER * len(level)
        if size > _LARGEST:
            return False
        level = [
            item
            for one in level
            if type(one) is not str
            for item in (one.values() if type(one) is dict else one)
            if type(item) not in _UNSIZED
        ]
    return False
