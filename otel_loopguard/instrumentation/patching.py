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
from otel_loopguard.instrumentation.wrappers import handler

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from otel_loopguard.instrumentation.targets import Point

logger = logging.getLogger("otel_loopguard")


class Wrapper(wrapt.FunctionWrapper):  # type: ignore[type-arg]
    """Ours, as opposed to anybody else's."""


class Patches:
    """All rows of all tables: one list drives putting in and taking out."""

    def __init__(self, points: Iterable[Point]) -> None:
        self._points = tuple(points)

    def install(self) -> None:
        """Patch what is imported already now, and the rest when it is imported."""
        for module in dict.fromkeys(point.module for point in self._points):
            wrapt.register_post_import_hook(self._imported, module)

    def _imported(self, module: ModuleType) -> None:
        """Runs inside the program's import statement: whatever goes wrong here must not reach it."""
        runtime = active_runtime.instrumented
        if runtime is None:
            return
        here = [point for point in self._points if point.module == module.__name__]
        missing = []
        for point in here:
            found = False
            with runtime.shield(f"patch.{point.module}:{point.path}"):
                found = _wrap(module, point)
            if not found:
                missing.append(point)
        if missing:
            with runtime.shield(f"patch.{module.__name__}"):
                tell_missing(module.__name__, here, missing)

    def restore(self) -> list[str]:
        """Take our wrappers out; names those that have to stay, switched off, because others wrapped over them."""
        left = []
        for point in self._points:
            module = sys.modules.get(point.module)
            if module is not None and not _unwrap(module, point.path):
                left.append(f"{point.module}:{point.path}")
        return left


def _wrap(module: ModuleType, point: Point) -> bool:
    """Whether our wrapper is there now."""
    try:
        parent, attribute, original = wrapt.resolve_path(module, point.path)
    except (AttributeError, ImportError):
        # Another version of the framework has it elsewhere; the tables name both places.
        logger.debug("%s has no %s; not patched", point.module, point.path)
        return False
    if _ours(original) is not None:
        # Another module imported it by name, after it was wrapped.
        return True
    if not fits(original, point):
        logger.debug("%s of %s is another sort of function; not patched", point.path, point.module)
        return False
    wrapt.apply_patch(parent, attribute, Wrapper(original, handler(point)))
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
