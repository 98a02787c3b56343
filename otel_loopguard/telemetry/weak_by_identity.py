"""A weak dictionary whose keys need no hash, such as Logfire's provider, which is a dataclass."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

_Value = TypeVar("_Value")


class WeakByIdentity(Generic[_Value]):
    """A value for each of some objects, by their identity. An object that is gone is forgotten."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[Any], _Value]] = {}

    def get(self, key: object) -> _Value | None:
        """Return the value of this object; None if it has none."""
        found = self._found.get(id(key))
        return None if found is None or found[0]() is not key else found[1]

    def put(self, key: object, value: _Value) -> None:
        """Set the value of this object."""
        number = id(key)
        self._found[number] = weakref.ref(key, lambda _: self._found.pop(number, None)), value

    def pairs(self) -> list[tuple[Any, _Value]]:
        """Return the objects that are there, each with its value."""
        return [(key, value) for ref, value in list(self._found.values()) if (key := ref()) is not None]
