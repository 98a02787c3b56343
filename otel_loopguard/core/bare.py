"""Looks at foreign objects without running a line of their code: no property, no ``__getattr__``, no metaclass.

``isinstance`` is no such look: it asks the object for its ``__class__``, which a lazy proxy answers by going to work.
"""

from __future__ import annotations

from typing import Any, Final

_mro_of: Final = type.__dict__["__mro__"].__get__
_dict_of: Final = type.__dict__["__dict__"].__get__


def classes(kind: type) -> tuple[type, ...]:
    """A class and all that it descends from."""
    found: tuple[type, ...] = _mro_of(kind)
    return found


def is_a(item: Any, base: type) -> bool:
    """Whether an object really is one of these, whatever it says of itself."""
    return base in _mro_of(type(item))


def members(kind: type) -> Any:
    """What a class itself defines, by name."""
    return _dict_of(kind)


def defines(kind: type, name: str) -> bool:
    """Whether objects of this class have such a method or attribute by their class."""
    return any(name in _dict_of(one) for one in _mro_of(kind))
