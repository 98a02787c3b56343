"""Puts our wrappers into frameworks when they are imported, and takes them out again. The only file that imports wrapt.

A wrapper asks at each call whether there is a runtime, so one that cannot be taken out, because somebody else wrapped
over it, is simply switched off. OpenTelemetry's own ``unwrap()`` would strip the other one instead.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import wrapt

from otel_loopguard.instrumentation.fitting import fits, tell_missing
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import ToolTarget
from otel_loopguard.instrumentation.wrappers import wrapper_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from otel_loopguard.instrumentation.targets import Target

logger = logging.getLogger("otel_loopguard")


class Wrapper(wrapt.FunctionWrapper):  # type: ignore[type-arg]
    """Ours, as opposed to anybody else's."""


class Patches:
    """The rows of one framework: one list drives putting in and taking out."""

    def __init__(self, targets: Iterable[Target], native_scopes: Iterable[str] = ()) -> None:
        self._targets = tuple(targets)
        self._native_scopes = tuple(native_scopes)

    def install(self) -> None:
        """Patch what is imported already now, and the rest when it is imported."""
        for module in dict.fromkeys(target.module for target in self._targets):
            wrapt.register_post_import_hook(self._imported, module)

    def _imported(self, module: ModuleType) -> None:
        """Runs inside the program's import statement: whatever goes wrong here must not reach it."""
        runtime = active_runtime.instrumented
        if runtime is None:
            return
        here = [target for target in self._targets if target.module == module.__name__]
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
            with runtime.shield(f"patch.{module.__name__}"):
                tell_missing(module.__name__, here, missing)

    def restore(self) -> list[str]:
        """Take our wrappers out; names those that have to stay, switched off, because others wrapped over them."""
        left = []
        for target in self._targets:
            module = sys.modules.get(target.module)
            if module is not None and not _unwrap(module, target.path):
                left.append(f"{target.module}:{target.path}")
        return left


def _wrap(module: ModuleType, target: Target) -> bool:
    """Whether our wrapper is there now."""
    try:
        parent, attribute, original = wrapt.resolve_path(module, target.path)
    except (AttributeError, ImportError):
        # Another version of the framework has it elsewhere; the tables name both places.
        logger.debug("%s has no %s; not patched", target.module, target.path)
        return False
    if _ours(original) is not None:
        # Another module imported it by name, after it was wrapped.
        return True
    if not fits(original, target):
        logger.debug("%s of %s is another sort of function; not patched", target.path, target.module)
        return False
    wrapt.apply_patch(parent, attribute, Wrapper(original, wrapper_of(target)))
    return True


def _unwrap(module: ModuleType, path: str) -> bool:
    try:
        parent, attribute, _ = wrapt.resolve_path(module, path)
    except (AttributeError, ImportError):
        return True
    # Not getattr: that binds the function, and a bound wrapper is not the wrapper.
    outermost = vars(parent).get(attribute)
    if isinstance(outermost, Wrapper):
        setattr(parent, attribute, outermost.__wrapped__)
        return True
    return _ours(outermost) is None


def _ours(function: Any) -> Any:
    """Our wrapper on this function, wherever in the chain it is; None if there is none."""
    while function is not None:
        if isinstance(function, Wrapper):
            return function
        function = getattr(function, "__wrapped__", None)
    return None
