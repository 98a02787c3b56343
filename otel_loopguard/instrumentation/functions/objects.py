"""Guard a callable object, such as a partial, a cached function or a class. All but its calls stays its own."""

from __future__ import annotations

import copy
import functools
import inspect
import typing
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, MethodWrapperType
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.values import introspect
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

_FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType, MethodDescriptorType, MethodWrapperType)


def is_function(inner: Any) -> bool:
    """Return True for functions and methods, and for proxies of one. A partial or another callable object is none."""
    return isinstance(inner, _FUNCTIONS)


class GuardedObject:
    """A callable object as a tool. Attributes are read from the object and written to it.

    Frameworks make a schema of it as of a function: it has the name of the tool, and the annotations of its call. If
    the object is a class, it stands in for that in ``isinstance``, in ``issubclass`` and as a base class.
    """

    def __init__(self, inner: Any, guarded: Callable[..., Any], again: Callable[[Any], GuardedObject]) -> None:
        vars(self).update(
            _inner=inner, _guarded=guarded, _again=again, __wrapped__=inner,
            **{name: getattr(guarded, name) for name in ("__name__", "__qualname__", "__module__", "__doc__")},
        )  # fmt: skip

    @property  # type: ignore[misc]  # a property, as proxies have it
    def __class__(self) -> type:
        """The class of the object, so that frameworks accept a tool of theirs."""
        inner = vars(self)["_inner"]
        # Frameworks that accept functions only reject partials. A class is expected to be a real one.
        return GuardedObject if isinstance(inner, (type, functools.partial)) else type(inner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: D102 - the documentation is that of the tool
        return self._guarded(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        inner = vars(self)["_inner"]
        if name == "__annotations__":
            return _annotations(inner)
        if hasattr(inner, name):
            return getattr(inner, name)
        return getattr(vars(self)["_guarded"], name)  # what inspect asks of a function, to know a coroutine function

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._inner, name)

    def __dir__(self) -> list[str]:
        return dir(self._inner)

    def __repr__(self) -> str:
        return repr(self._inner)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        is_method = instance is not None and introspect.defines(type(self._inner), "__get__")
        return MethodType(self, instance) if is_method else self

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self._inner)

    def __subclasscheck__(self, kind: Any) -> bool:
        return issubclass(kind, self._inner)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._inner,)

    def __copy__(self) -> Any:
        return self._again(copy.copy(self._inner))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._again(copy.deepcopy(self._inner, memo))

    def __reduce__(self) -> Any:
        """Pickle a decorated function of a module by its name, and any other object by its content."""
        if introspect.found_by_name(self.__module__, self.__qualname__) is self:
            return self.__qualname__
        return self._again, (self._inner,)


def _annotations(inner: Any) -> dict[str, Any]:
    """Return the evaluated annotations of a callable, by the names of the module of its innermost function."""
    function = inner
    while isinstance(function, functools.partial):
        function = function.func
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is needed
    if type(call) is FunctionType:
        function = call
    try:
        found, parameters = typing.get_type_hints(function, include_extras=True), inspect.signature(inner).parameters
    except (NameError, AttributeError, TypeError, ValueError, SyntaxError) as error:  # names that are not there yet
        pass_interrupt(error)
        return dict(getattr(function, "__annotations__", None) or {})
    return {name: hint for name, hint in found.items() if name in parameters or name == "return"}
