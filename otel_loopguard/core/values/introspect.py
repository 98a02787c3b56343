"""Looks at foreign objects without running a line of their code: no property, no ``__getattr__``, no metaclass.

``isinstance`` is no such look: it asks the object for its ``__class__``, which a lazy proxy answers by going to work.
"""

from __future__ import annotations

from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final

_mro_of: Final = type.__dict__["__mro__"].__get__
_dict_of: Final = type.__dict__["__dict__"].__get__
_size_of: Final = type.__dict__["__basicsize__"].__get__
_name_of: Final = type.__dict__["__qualname__"].__get__
_module_of: Final = type.__dict__["__module__"].__get__
_DESCRIPTORS: Final = (GetSetDescriptorType, MemberDescriptorType)
_POINTER: Final = object.__basicsize__ // 2


def classes(kind: type) -> tuple[type, ...]:
    """A class and all that it descends from."""
    found: tuple[type, ...] = _mro_of(kind)
    return found


def is_a(item: Any, base: type) -> bool:
    """Whether an object really is one of these, whatever it says of itself."""
    return base in _mro_of(type(item))


def defines(kind: type, name: str) -> bool:
    """Whether objects of this class have such a method or attribute by their class."""
    return any(name in _dict_of(one) for one in _mro_of(kind))


def type_name(kind: type) -> str:
    """Module and name of a class."""
    module = _module_of(kind)
    return f"{module if type(module) is str else ''}.{_name_of(kind)}"


def name_text(name: Any) -> str:
    """What should be a name, as one: a member of an enumeration of texts is its text, anything else its type."""
    if type(name) is str:
        return name
    return str.__str__(name) if is_a(name, str) else type_name(type(name))


def as_builtin(value: Any) -> Any:
    """A value as the builtin object that it really is, if it is one; else the value itself."""
    for one in classes(type(value)):
        if one in _BUILTIN:
            return value if one is type(value) else _BUILTIN[one](value)
    return value


_BUILTIN: Final[dict[type, Any]] = {
    str: str.__str__,
    dict: lambda value: dict(dict.items(value)),
    list: lambda value: list(list.__iter__(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
}
BUILTINS: Final = frozenset(_BUILTIN)


def fields(item: Any) -> dict[Any, Any]:
    """The fields of a dataclass, pydantic model or any other plain object."""
    found: dict[Any, Any] = {}
    for one in classes(type(item)):
        members = _dict_of(one)
        kept = members.get("__dict__")
        if type(kept) in _DESCRIPTORS and one is not type:
            found.update(dict.items(kept.__get__(item)))
        slots = members.get("__slots__", ())
        for slot in (slots,) if type(slots) is str else slots if type(slots) in (tuple, list) else tuple(members):
            member = members.get(slot)
            if type(member) is MemberDescriptorType:
                try:
                    found[slot] = member.__get__(item)
                except AttributeError:  # a slot that was never set
                    continue
    if is_a(item, BaseException):
        found["args"] = BaseException.args.__get__(item)  # type: ignore[attr-defined]
    return {key: value for key, value in found.items() if not (is_a(key, str) and str.startswith(key, "__"))}


def is_hidden(item: Any) -> bool:
    """Whether an object may hold what cannot be read: it stands for another one, or has more memory than fields."""
    kind, slots, kept = type(item), 0, 0
    for one in classes(kind)[:-1]:
        members = _dict_of(one)
        if "__class__" in members or ("__dict__" in members and type(members["__dict__"]) not in _DESCRIPTORS):
            return True
        kept = kept or (2 * _POINTER if "__dict__" in members or "__weakref__" in members else 0)
        if "__slots__" in members:
            slots += sum(type(member) is MemberDescriptorType for member in members.values())
    return bool(_size_of(kind) > object.__basicsize__ + kept + slots * _POINTER) and not is_a(item, BaseException)
