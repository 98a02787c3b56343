"""Read the arguments of a guarded function, by name, with the state that the function itself brings along.

That is the object of a method, the arguments of a partial, and the identity of a function that a function has made. So
equal calls of the same method on two objects are different calls. Objects count by identity, because their methods
change them: by content, each call would have other arguments.
"""

from __future__ import annotations

import functools
import inspect
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.values import introspect
from otel_loopguard.engine.values.identity import identities
from otel_loopguard.instrumentation.functions.objects import GuardedObject
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

_DATA = frozenset({str, int, float, bool, dict, list, tuple, bytes, type(None)})
_LONGEST_CHAIN = 16


class Arguments:
    """Read the arguments of the calls of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            self._signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError) as error:  # many builtins have none
            pass_interrupt(error)
            self._signature = None
        self._first = next(iter(self._signature.parameters), None) if self._signature else None
        self._state = _state(function)

    def read(self, replacement: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name. ``replacement``: the guarded function, which may be in a class."""
        given = self._by_name(args, kwargs)
        if args and self._first in given and type(args[0]) not in _DATA and _is_method(replacement, args[0]):
            given[self._first] = _by_identity(args[0])
        if self._state:
            given.update(self._state)
        return given

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[Any, Any]:
        if self._signature is not None:
            try:
                return dict(self._signature.bind(*args, **kwargs).arguments)
            except TypeError as error:  # the function itself will raise
                pass_interrupt(error)
        return {"*": list(args), **kwargs}


def _state(function: Any) -> dict[str, Any]:
    """Return the arguments that a callable brings along. Their names begin with *, as no parameter's does."""
    if type(function) is functools.partial:
        return {"*partial": [function.args, function.keywords], **_state(function.func)}
    if type(function) in (MethodType, BuiltinFunctionType):
        owner = function.__self__
        return {} if owner is None or type(owner) is ModuleType else {"*self": _by_identity(owner)}
    if type(function) is FunctionType or introspect.is_a(function, type):
        # Made at run time, once or many times, with other variables each time.
        return {"*made": _by_identity(function)} if "<locals>" in function.__qualname__ else {}
    return {"*object": _by_identity(function)}


def _by_identity(item: Any) -> Any:
    """Return a number for the object itself. If it can have none, return the object: then its content counts."""
    number = identities.number(item)
    return item if number is None else number


def _is_method(replacement: Any, item: Any) -> bool:
    """Return True if ``item``, the first argument, is the ``self`` or ``cls`` of a method.

    It is a class, or an object whose class has this function, maybe below other decorators.
    """
    name = replacement.__name__
    return introspect.is_a(item, type) or any(
        _leads_to(found, replacement) for found in introspect.definitions(type(item), name)
    )


def _leads_to(found: Any, replacement: Any) -> bool:
    for _ in range(_LONGEST_CHAIN):
        if found is replacement:
            return True
        if type(found) is FunctionType:
            found = found.__dict__.get("__wrapped__")
        elif type(found) is property:
            found = found.fget
        elif type(found) is GuardedObject:
            found = vars(found)["_guarded"]
        else:
            return False
    return False
