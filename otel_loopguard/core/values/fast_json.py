"""Encode plain JSON values with orjson, after a check that orjson can bear them.

orjson refuses lists and dictionaries that are too deep, but follows tuples until the process crashes. A value that
holds the same list twice at each of sixty levels would keep it busy for years.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import orjson

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATETIME
_OPTIONS |= orjson.OPT_PASSTHROUGH_DATACLASS
_CONTAINERS = frozenset({dict, list, tuple})
_DEEPEST = 200
_MOST_CONTAINERS = 300_000
_MOST_VALUES = 50_000_000


class NotPlainError(TypeError):
    """The value needs the walker."""


def dumps(value: Any) -> bytes:
    """Encode a value with sorted keys; raise if it is not plain JSON, or too deep or too large."""
    if not _is_shallow(value) and _is_too_deep_or_large(value):
        raise NotPlainError
    data = orjson.dumps(value, option=_OPTIONS)
    if b"null" in data and _holds_non_finite(value):  # orjson writes these floats as null, too
        raise NotPlainError
    return data


def _is_shallow(value: Any) -> bool:
    """Return True for a dictionary of plain values and of containers of those, as nearly all arguments are."""
    if type(value) is not dict:
        return type(value) not in _CONTAINERS
    for item in value.values():
        if type(item) in _CONTAINERS:
            within = item.values() if type(item) is dict else item
            if not _CONTAINERS.isdisjoint(map(type, within)):
                return False
    return True


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


def _is_too_deep_or_large(value: Any) -> bool:
    level = [value]
    containers = values = 0
    for _ in range(_DEEPEST):
        if not level:
            return False
        containers += len(level)
        values += sum(map(len, level))
        if containers > _MOST_CONTAINERS or values > _MOST_VALUES:
            return True
        level = [
            item for one in level for item in (one.values() if type(one) is dict else one) if type(item) in _CONTAINERS
        ]
    return True
