"""Inspect foreign objects without running their code: no property, no ``__getattr__``, no metaclass.

``isinstance`` does not do: it reads the object's ``__class__``, and a lazy proxy then loads the object behind it.
"""

from __future__ import annotations

import sys
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any, Final

from otel_loopguard.interrupts import pass_interrupt

_mro_of: Final = type.__dict__["__mro__"].__get__
_dict_of: Final = type.__dict__["__dict__"].__get__
_size_of: Final = type.__dict__["__basicsize__"].__get__
_dict_place_of: Final = type.__dict__["__dictoffset__"].__get__
_weak_place_of: Final = type.__dict__["__weakrefoffset__"].__get__
_names_of: Final = vars(ModuleType)["__dict__"].__get__
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


def definer(kind: type, name: str) -> type | None:
    """Return the class that defines the name: the class itself or the first of its bases."""
    return next((one for one in _mro_of(kind) if name in _dict_of(one)), None)


def defines(kind: type, name: str) -> bool:
    """Return True if the class or one of its bases defines the name."""
    return definer(kind, name) is not None


def definitions(kind: type, name: str) -> list[Any]:
    """Return what the class and its bases define under a name, without binding it."""
    return [members[name] for members in map(_dict_of, _mro_of(kind)) if name in members]


def type_name(kind: type) -> str:
    """Return the module and qualified name of a class."""
    module = _module_of(kind)
    return f"{module if type(module) is str else ''}.{_name_of(kind)}"


def is_found_by_name(kind: type) -> bool:
    """Return True if the name of a class leads to it. Classes that are made in a function share a name."""
    return found_by_name(_module_of(kind), _name_of(kind)) is kind


def found_by_name(module: Any, path: str) -> Any:
    """Return the object that pickle finds under a name; None if there is none."""
    found = sys.modules.get(module) if type(module) is str else None
    for name in path.split("."):
        if found is None or not (is_a(found, type) or is_a(found, ModuleType)):
            return None
        found = (_dict_of if is_a(found, type) else _names_of)(found).get(name)
    return found


def is_iterator(item: Any) -> bool:
    """Return True for an object that moves when it is used: an iterator, a generator, an open file."""
    return defines(type(item), "__next__") or defines(type(item), "__anext__")


def name_text(name: Any) -> str:
    """Return a name as a plain string: a subclass of ``str`` as its text, anything else as the name of its type."""
    if type(name) is str:
        return name
    return str.__str__(name) if is_a(name, str) else type_name(type(name))


def as_builtin(value: Any) -> Any:
    """Convert an instance of a subclass of str, dict, list or tuple to that type.

    Any other value, and one of more than 400,000 items, is returned as it is.
    """
    for one in classes(type(value)):
        if one in _BUILTIN:
            is_copied = one is not type(value) and one.__len__(value) <= _LARGEST_COPIED  # type: ignore[attr-defined]  # all of them have a length
            return _BUILTIN[one](value) if is_copied else value
    return value


_LARGEST_COPIED = 400_000


_BUILTIN: Final[dict[type, Any]] = {
    str: str.__str__,
    dict: lambda value: dict(dict.items(value)),
    list: lambda value: list(list.__iter__(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
}
BUILTINS: Final = frozenset(_BUILTIN)


class TooLargeError(TypeError):
    """A value has more parts, or more bytes, than can be read within bounds."""


def layout(kind: type) -> list[tuple[str | None, Any]]:
    """Return where the fields of a class's objects are: name and descriptor of each slot; the name None for a dict."""
    found: list[tuple[str | None, Any]] = []
    is_error = BaseException in classes(kind)
    for one in classes(kind):
        members = _dict_of(one)
        descriptor = members.get("__dict__")
        if type(descriptor) in _DESCRIPTORS and one is not type:
            found.append((None, descriptor))
        slots = members.get("__slots__", ())
        listed = type(slots) in (tuple, list) and not is_error  # the fields of an exception made in C are not listed
        for slot in (slots,) if type(slots) is str else slots if listed else tuple(members):
            member = members.get(slot)
            if type(member) is MemberDescriptorType:
                found.append((slot, member))
    if is_error:
        found.append(("args", BaseException.args))
    return found


def fields(
    item: Any, places: list[tuple[str | None, Any]], *, hidden: bool = False, most: int = _LARGEST_COPIED
) -> dict[Any, Any]:
    """Read the fields of a dataclass, pydantic model, exception or any other plain object.

    ``places``: the ``layout`` of its class. ``hidden``: also the fields that pydantic keeps apart, such as the names of
    those that were given. Raise ``TooLargeError`` if there are more than ``most``.
    """
    found: dict[Any, Any] = {}
    for name, descriptor in places:
        if name is None:
            attributes = descriptor.__get__(item)
            if dict.__len__(attributes) > most:
                raise TooLargeError
            found.update(dict.items(attributes))
        else:
            try:
                found[name] = descriptor.__get__(item)
            except AttributeError as error:  # a slot that was never set
                pass_interrupt(error)
    return {
        key: value
        for key, value in found.items()
        if hidden
        or not (is_a(key, str) and str.startswith(key, "__"))
        or (value is not None and str.__str__(key) in _CONTENT)
    }


_CONTENT: Final = frozenset({"__pydantic_extra__", "__pydantic_private__"})
"""Fields that are content, although pydantic keeps them apart."""


def is_opaque(kind: type, base: type = object) -> bool:
    """Return True if objects of a class may hold state that cannot be read: a proxy, an awaitable, memory of C code.

    ``base``: the builtin type among its bases whose content is read in another way.
    """
    for one in classes(kind)[:-1]:
        members = _dict_of(one)
        if not _CONTENT_ELSEWHERE.isdisjoint(members):
            return True
        if "__dict__" in members and type(members["__dict__"]) not in _DESCRIPTORS:
            return True
    return _hidden_size(kind) > _hidden_size(base) and BaseException not in classes(kind)


_CONTENT_ELSEWHERE: Final = frozenset({"__class__", "__await__"})
"""Attributes of a class whose objects stand for another object: one to load, or one to await."""


def _hidden_size(kind: type) -> int:
    """Return the bytes of an object of a class that no field, dict or weak reference takes up."""
    size: int = _size_of(kind)
    dict_place = _dict_place_of(kind)
    if dict_place > 0 or dict_place == -_POINTER:  # from Python 3.11 on, most are in front of the object
        size -= _POINTER
    if _weak_place_of(kind) > 0:
        size -= _POINTER
    for one in classes(kind):
        members = _dict_of(one)
        if "__slots__" in members:
            size -= _POINTER * sum(type(member) is MemberDescriptorType for member in members.values())
    return size
