"""Puts our wrappers into frameworks when they are imported, and takes them out again. The only file that imports wrapt.

A wrapper asks at each call whether there is a runtime, so one that cannot be taken out, because somebody else wrapped
over it, is simply switched off. OpenTelemetry's own ``unwrap()`` would strip the other one instead.
"""

from __future__ import annotations

import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import wrapt

from .boundary import Boundary, RunContext, run_async, run_async_generator, run_background, run_generator, run_plain
from .dispatch import drive, drive_async, open_step
from .fitting import fits, tell_missing
from .points import CallPoint, RunPoint, ToolPoint
from .runtime import current as current_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType, TracebackType

    from .points import Point

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
        runtime = current_runtime.instrumented
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


def handler(point: Point) -> Callable[..., Any]:
    """What a wrapper does at each call, in the shape of the function it wraps."""
    if isinstance(point, ToolPoint) and point.each is not None:
        return partial(_tools_async, point)
    if isinstance(point, ToolPoint):
        return partial(_tool_async if point.flavour == "async" else _tool, point)
    if isinstance(point, RunPoint):
        return partial(_RUNS[point.flavour], point)
    return partial(_call, point)


def _call(point: CallPoint, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    if current_runtime.instrumented is None:
        return wrapped(*args, **kwargs)
    return point.wrapper(wrapped, instance, args, kwargs)


class _Fatal:
    """A call that is seen only when it fails."""

    def __init__(self, point: ToolPoint, instance: Any, args: Any, kwargs: Any) -> None:
        self._called = point, instance, args, kwargs

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception):
            return
        step = _step(*self._called)
        if step is not None:
            step.__enter__()
            step.__exit__(kind, error, traceback)


def _tool(point: ToolPoint, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    if point.fatal:
        with _Fatal(point, instance, args, kwargs):
            return wrapped(*args, **kwargs)
    step = _step(point, instance, args, kwargs)
    return wrapped(*args, **kwargs) if step is None else drive(step, partial(wrapped, *args, **kwargs))


async def _tool_async(point: ToolPoint, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    if point.fatal:
        with _Fatal(point, instance, args, kwargs):
            return await wrapped(*args, **kwargs)
    step = _step(point, instance, args, kwargs)
    if step is None:
        return await wrapped(*args, **kwargs)
    return await drive_async(step, partial(wrapped, *args, **kwargs))


async def _tools_async(point: ToolPoint, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime, parts = current_runtime.instrumented, None
    if runtime is not None and point.each is not None:
        with runtime.shield("adapter.each"):
            parts = point.each(kwargs)
    if parts is None:
        return await wrapped(*args, **kwargs)
    return [result for part in parts for result in await _tool_async(point, wrapped, instance, args, part)]


def _step(point: ToolPoint, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = current_runtime.instrumented
    if runtime is None:
        return None
    span = point.span if isinstance(point.span, str) else point.span()
    return open_step(runtime, point.dialect, instance, args, kwargs, span=span)


def _run(point: RunPoint, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = current_runtime.instrumented
    if runtime is None:
        return wrapped(*args, **kwargs)
    return run_plain(Boundary(runtime, point, instance, args, kwargs), partial(wrapped, *args, **kwargs))


def _run_background(point: RunPoint, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = current_runtime.instrumented
    if runtime is None:
        return wrapped(*args, **kwargs)
    return run_background(Boundary(runtime, point, instance, args, kwargs), partial(wrapped, *args, **kwargs))


def _run_context(point: RunPoint, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001
    runtime, manager = current_runtime.instrumented, wrapped(*args, **kwargs)
    if runtime is None:
        return manager
    return RunContext(lambda run: Boundary(runtime, point, run, args, kwargs), manager)


async def _run_async(point: RunPoint, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = current_runtime.instrumented
    if runtime is None:
        return await wrapped(*args, **kwargs)
    return await run_async(Boundary(runtime, point, instance, args, kwargs), partial(wrapped, *args, **kwargs))


def _run_generator(point: RunPoint, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = current_runtime.instrumented
    run = partial(wrapped, *args, **kwargs)
    return run() if runtime is None else run_generator(partial(Boundary, runtime, point, instance, args, kwargs), run)


def _run_async_generator(point: RunPoint, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = current_runtime.instrumented
    run = partial(wrapped, *args, **kwargs)
    if runtime is None:
        return run()
    return run_async_generator(partial(Boundary, runtime, point, instance, args, kwargs), run)


_RUNS: dict[str, Callable[..., Any]] = {
    "sync": _run,
    "background": _run_background,
    "context": _run_context,
    "async": _run_async,
    "generator": _run_generator,
    "async_generator": _run_async_generator,
}
