"""Patch frameworks when they are imported, and restore them.

A wrapper checks at each call if there is a runtime. So a wrapper that cannot be removed, because another library wraps
it, does nothing after ``uninstrument()``. OpenTelemetry's own ``unwrap()`` would remove the other library's instead.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import wrapt

from otel_loopguard.instrumentation.distributions import distributions_of
from otel_loopguard.instrumentation.imports import when_imported
from otel_loopguard.instrumentation.process_start import process_start
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import CallStyle, Original, OverrideTarget, RunTarget, ToolTarget
from otel_loopguard.instrumentation.wrappers import wrapper_of
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from types import ModuleType

    from otel_loopguard.instrumentation.targets import Target

logger = logging.getLogger("otel_loopguard")


_originals: Final[WeakKeyDictionary[Any, tuple[Any, Target]]] = WeakKeyDictionary()
"""For each function of this package that replaces another: the attribute that it has replaced, and the target.

A mark on the function would not do: ``functools.wraps`` copies it to the wrappers of other libraries.
"""


def is_ours(attribute: Any) -> bool:
    """Return True if an attribute of a class or module is a replacement by this package."""
    function = attribute.__func__ if isinstance(attribute, _DESCRIPTORS) else attribute
    return type(function) is FunctionType and function in _originals


_DESCRIPTORS: Final = (staticmethod, classmethod)


class Patches:
    """The patches of one framework or client. The same list of targets drives ``install`` and ``restore``."""

    def __init__(self, targets: Iterable[Target], native_scopes: Iterable[str] = ()) -> None:
        self._targets = tuple(targets)
        self._native_scopes = tuple(native_scopes)

    def install(self) -> None:
        """Patch the modules that are imported already, and the rest when they are imported."""
        for module in dict.fromkeys(target.module for target in self._targets):
            when_imported(module, partial(self.patch, module))

    def patch(self, name: str, module: ModuleType) -> None:
        """Patch the targets in one module, if the guard is on. If one cannot be patched, the others still are.

        ``name``: the one that it is imported by. CrewAI overwrites the ``__name__`` of its modules.
        """
        process_start.wake()
        runtime = active_runtime.instrumented
        if runtime is None:
            return
        if name.partition(".")[0] not in sys.stdlib_module_names:  # its threads are in every program
            active_runtime.expects_calls = True
        here = [target for target in self._targets if target.module == name]
        missing = []
        for target in here:
            found = False
            with runtime.shield(f"patch.{target.module}:{target.path}"):
                found = _wrap(module, target)
            if not found:
                missing.append(target)
            elif isinstance(target, ToolTarget):
                active_runtime.patched_scopes.update(self._native_scopes)
        if missing:
            with runtime.shield(f"patch.{name}"):
                warn_of_missing(name, here, missing)

    def restore(self) -> list[str]:
        """Remove our patches. Return the places, as ``module:path``, of patches that stay: another library wraps them.

        They do nothing from now on.
        """
        left = []
        for target in self._targets:
            module = sys.modules.get(target.module)
            if module is not None and not _removed(module, target):
                left.append(f"{target.module}:{target.path}")
        return left


def _wrap(module: ModuleType, target: Target) -> bool:
    """Wrap the target's function. Return True if our wrapper is there now."""
    try:
        parent, attribute, original = wrapt.resolve_path(module, target.path)
    except (AttributeError, ImportError) as error:
        pass_interrupt(error)
        # Another version of the framework has it in another place; the targets name both.
        logger.debug("%s has no %s; not patched", target.module, target.path)
        return False
    if isinstance(target, OverrideTarget):
        _wrap_overrides(parent, target)
        return True
    if _is_wrapped(original):
        # Another module imported it by name, after it was wrapped.
        return True
    if not fits(original, target):
        logger.debug("%s of %s is another style of function; not patched", target.path, target.module)
        return False
    setattr(parent, attribute, _replacement(target, original, in_class=inspect.isclass(parent)))
    return True


def _replacement(target: Target, original: Any, *, in_class: bool) -> Any:
    """Return what replaces an attribute of a class or module: a function or descriptor of the same sort.

    Modules that have the function by the same name get the same replacement: pickle looks for it under one of them.
    """
    function = original.__func__ if isinstance(original, _DESCRIPTORS) else original
    is_bound = in_class and not isinstance(original, staticmethod) and hasattr(function, "__get__")
    replacement = next(
        (ours for ours, (was, of) in list(_originals.items()) if was is original and _same(of, target)), None
    )
    if replacement is None:
        replacement = _function(target, Original(function, function.__get__ if is_bound else None))
        _originals[replacement] = original, target
    if isinstance(original, _DESCRIPTORS):
        return type(original)(replacement)
    return staticmethod(replacement) if in_class and not is_bound else replacement


def _same(one: Target, other: Target) -> bool:
    """Return True if the targets differ at most in the module: several modules have the one function."""
    return replace(one, module=other.module) == other


def _function(target: Target, original: Original) -> Any:
    """Return a function of the same sort as the original, with its name, docstring, signature and annotations."""
    function, guarded = original.function, wrapper_of(target, original)
    if not any(is_one(guarded) and not is_one(function) for is_one in (_COROUTINE, _GENERATOR, _ASYNC_GENERATOR)):
        return functools.wraps(function)(guarded)

    @functools.wraps(function)
    def plain(*given: Any, **kwargs: Any) -> Any:
        """Return the coroutine or generator, as the original does, which is a plain function."""
        if active_runtime.instrumented is None:
            wrapped, _, args = original.bind(given)
            return wrapped(*args, **kwargs)
        return guarded(*given, **kwargs)

    return plain


def _removed(module: ModuleType, target: Target) -> bool:
    """Remove our wrapper. Return False if another one is around it."""
    try:
        parent, attribute, _ = wrapt.resolve_path(module, target.path)
    except (AttributeError, ImportError) as error:
        pass_interrupt(error)
        return True
    if isinstance(target, OverrideTarget):
        _overridden.pop(parent, None)
        restored = [_unwrap(one, attribute) for one in _subclasses(parent)]
        return _unwrap(parent, _HOOK) and all(restored)
    return _unwrap(parent, attribute)


def _unwrap(parent: Any, attribute: str) -> bool:
    # Not getattr: that binds the function.
    outermost = vars(parent).get(attribute)
    if is_ours(outermost):
        original = _originals[getattr(outermost, "__func__", outermost)][0]
        if original is None:
            delattr(parent, attribute)
        else:
            setattr(parent, attribute, original)
        return True
    return not _is_wrapped(outermost)


def _is_wrapped(function: Any) -> bool:
    """Return True if our wrapper is anywhere in the chain of wrappers."""
    return any(is_ours(one) for one in _chain(function))


def _chain(function: Any) -> Iterator[Any]:
    """Yield the function and, in turn, everything that it wraps."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


# --- methods that subclasses override ----------------------------------------------------------------------------

_HOOK: Final = "__init_subclass__"
_overridden: Final[WeakKeyDictionary[Any, dict[str, Target]]] = WeakKeyDictionary()
"""The targets of each base class, by the name of the method."""


def _wrap_overrides(base: Any, target: OverrideTarget) -> None:
    """Replace the method in all subclasses, and in each that is made from now on."""
    _overridden.setdefault(base, {})[target.path.rpartition(".")[2]] = target
    own: Any = vars(base).get(_HOOK)
    if not _is_wrapped(own):

        def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:  # noqa: N807 - its name in a traceback
            begin = super(base, cls).__init_subclass__ if own is None else own.__get__(None, cls)
            begin(**kwargs)
            runtime = active_runtime.instrumented
            if runtime is not None:
                with runtime.shield("patch.subclass"):
                    _wrap_methods(base, cls)

        _originals[__init_subclass__] = own, target
        base.__init_subclass__ = classmethod(__init_subclass__)
    for one in _subclasses(base):
        _wrap_methods(base, one)


def _wrap_methods(base: Any, one: Any) -> None:
    """Replace the methods of a class that it defines itself, or has from a class that is no subclass of the base."""
    for name, target in _overridden.get(base, {}).items():
        owner = next(each for each in one.__mro__ if name in vars(each))
        method = vars(owner)[name]
        if owner is not one and issubclass(owner, base):
            continue
        if callable(method) and not getattr(method, "__isabstractmethod__", False) and not _is_wrapped(method):
            setattr(one, name, _replacement(target, method, in_class=True))


def _subclasses(base: Any) -> Iterator[Any]:
    for one in type.__subclasses__(base):
        yield one
        yield from _subclasses(one)


# --- other versions of a framework -------------------------------------------------------------------------------

_COROUTINE, _GENERATOR, _ASYNC_GENERATOR = (
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)
_NOT_OF_STYLE: Final[dict[CallStyle, tuple[Callable[[Any], bool], ...]]] = {
    CallStyle.SYNC: (_COROUTINE, _GENERATOR, _ASYNC_GENERATOR),
    CallStyle.BACKGROUND: (_COROUTINE, _GENERATOR, _ASYNC_GENERATOR),
    CallStyle.CONTEXT: (_COROUTINE, _GENERATOR),
    CallStyle.GENERATOR: (_COROUTINE, _ASYNC_GENERATOR),
    CallStyle.ASYNC_GENERATOR: (_COROUTINE, _GENERATOR),
}


def fits(function: Any, target: Target) -> bool:
    """Return True if the function has the target's style. A wrapper of another style would break its callers.

    The function may be the program's own, in a module that happens to have the framework's name.
    """
    style = getattr(target, "style", None)
    if style is None:
        return callable(function)
    chain = list(_chain(function))
    if style is CallStyle.ASYNC:
        return any(_COROUTINE(one) for one in chain)
    return not any(is_one(one) for one in chain for is_one in _NOT_OF_STYLE[style])


def warn_of_missing(module: str, targets: Collection[Target], missing: Collection[Target]) -> None:
    """Log that this version of a framework has none of the functions that ran tools, or agents, in known versions.

    The targets name the places of several versions, so some are always missing. A program's own module of the same
    name belongs to no distribution, and nothing is logged for it.
    """
    for kind, calls in ((ToolTarget, "tool calls are"), (RunTarget, "runs are")):
        needed = [target for target in targets if isinstance(target, kind) and not target.optional]
        if needed and all(target in missing for target in needed):
            owners = distributions_of(module)
            if owners:
                logger.warning(
                    "otel_loopguard found nothing to patch in %s of %s (looked for %s): its %s not guarded. "
                    "A newer otel_loopguard may know this version; please report it.",
                    module,
                    ", ".join(f"{owner} {version}" for owner, version in owners.items()),
                    ", ".join(target.path for target in needed),
                    calls,
                )
