"""Plain JSON values written in C, once it is sure that C can bear them.

orjson refuses lists and dictionaries that are too deep, but follows tuples until the process dies of it, and what
holds the same list twice at each of sixty levels it would write until the end of days.
"""

from __future__ import annotations

from typing import Any

import orjson

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATETIME
_OPTIONS |= orjson.OPT_PASSTHROUGH_DATACLASS
_CONTAINERS = frozenset({dict, list, tuple})
_DEEPEST = 200
_MOST_CONTAINERS = 300_000
_MOST_VALUES = 50_000_000


class NotPlainError(TypeError):
    """The value is for the writer that walks."""


def dumps(value: Any) -> bytes:
    """The bytes, keys sorted; an exception where the value is no plain JSON, or too much of it."""
    if _is_too_much(value):
        raise NotPlainError
    return orjson.dumps(value, option=_OPTIONS)


def _is_too_much(value: Any) -> bool:
    return not _is_shallow(value) and _is_too_deep_or_wide(value)


def _is_shallow(value: Any) -> bool:
    """Whether it is an object of plain values and of containers of those, as nearly all arguments are."""
    if type(value) is not dict:
        return type(value) not in _CONTAINERS
    for item in value.values():
        if type(item) in _CONTAINERS:
            within = item.values() if type(item) is dict else item
            if not _CONTAINERS.isdisjoint(map(type, within)):
                return False
    return True


def _is_too_deep_or_wide(value: Any) -> bool:
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
