"""Inspect foreign objects without running their code: no property, no ``__getattr__``, no metaclass.

``isinstance`` does not do: it reads the object's ``__class__``, and a lazy proxy then loads the object behind it.
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
    """Return a class and all its base classes, in method resolution order."""
    found: tuple[type, ...] = _mro_of(kind)
    return found


def is_a(item: Any, base: type) -> bool:
    """Return True if an object really is an instance of ``base``, whatever its ``__class__`` is."""
    return base in _mro_of(type(item))


def defines(kind: type, name: str) -> bool:
    """Return True if the class or one of its bases defines the name."""
    return any(name in _dict_of(one) for one in _mro_of(kind))


def type_name(kind: type) -> str:
    """Return the module and qualified name of a class."""
    module = _module_of(kind)
    return f"{module if type(module) is str else ''}.{_name_of(kind)}"


def name_text(name: Any) -> str:
    """Return a name as a plain string: a subclass of ``str`` as its text, anything else as the name of its type."""
    if type(name) is str:
        return name
    return str.__str__(name) if is_a(name, str) else type_name(type(name))


def as_builtin(value: Any) -> Any:
    """Convert an instance of a subclass of a builtin type to that type; return any other value as it is."""
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
    """Read the fields of a dataclass, pydantic model or any other plain object."""
    found: dict[Any, Any] = {}
    for one in classes(type(item)):
        members = _dict_of(one)
        descriptor = members.get("__dict__")
        if type(descriptor) in _DESCRIPTORS and one is not type:
            found.update(dict.items(descriptor.__get__(item)))
        slots = members.get("__slots__", ())
        for slot in (slots,) if type(slots) is str else slots if type(slots) in (tuple, list) else tuple(members):
            member = members.get(slot)
            if type(member) is MemberDescriptorType:
                try:
                    found[slot] = member.__get__(item)
                except AttributeError:  # a slot that was never set
                    continue
    if is_a(item, BaseException):
        found["args"] = BaseException.args.__get__(item)  # type: ignore[attr-defined]  # a C descriptor
    return {key: value for key, value in found.items() if not (is_a(key, str) and str.startswith(key, "__"))}


def is_opaque(item: Any) -> bool:
    """Return True if an object may hold state that cannot be read: a proxy, or an object larger than its fields."""
    kind, slots, dict_size = type(item), 0, 0
    for one in classes(kind)[:-1]:
        members = _dict_of(one)
        if "__class__" in members or ("__dict__" in members and type(members["__dict__"]) not in _DESCRIPTORS):
            return True
        dict_size = dict_size or (2 * _POINTER if "__dict__" in members or "__weakref__" in members else 0)
        if "__slots__" in members:
            slots += sum(type(member) is MemberDescriptorType for member in members.values())
    return bool(_size_of(kind) > object.__basicsize__ + dict_size + slots * _POINTER) and not is_a(item, BaseException)
