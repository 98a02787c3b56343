"""What our wrappers do at each call, in the shape of the function that they wrap."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.agent_run import (
    AgentRun,
    RunContext,
    run_async,
    run_async_generator,
    run_background,
    run_generator,
    run_plain,
)
from otel_loopguard.instrumentation.opening import open_call
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import CallStyle, CallTarget, RunTarget, ToolTarget
from otel_loopguard.instrumentation.tool_call import drive, drive_async

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from otel_loopguard.instrumentation.targets import Target


def handler(target: Target) -> Callable[..., Any]:
    """What a wrapper does at each call, in the shape of the function it wraps."""
    if isinstance(target, ToolTarget) and target.each is not None:
        return partial(_tools_async, target)
    if isinstance(target, ToolTarget):
        return partial(_tool_async if target.style is CallStyle.ASYNC else _tool, target)
    if isinstance(target, RunTarget):
        return partial(_RUNS[target.style], target)
    return partial(_call, target)


def _call(target: CallTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    if active_runtime.instrumented is None:
        return wrapped(*args, **kwargs)
    return target.wrapper(wrapped, instance, args, kwargs)


class _Fatal:
    """A call that is seen only when it fails."""

    def __init__(self, target: ToolTarget, instance: Any, args: Any, kwargs: Any) -> None:
        self._called = target, instance, args, kwargs

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        step = _step(*self._called) if isinstance(error, Exception) else None
        if step is not None:
            step.__enter__()
            step.__exit__(kind, error, traceback)

    async def __aenter__(self) -> None:
        return

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        step = _step(*self._called) if isinstance(error, Exception) else None
        if step is not None:
            await step.__aenter__()
            await step.__aexit__(kind, error, traceback)


def _tool(target: ToolTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    if target.fatal:
        with _Fatal(target, instance, args, kwargs):
            return wrapped(*args, **kwargs)
    step = _step(target, instance, args, kwargs)
    return wrapped(*args, **kwargs) if step is None else drive(step, partial(wrapped, *args, **kwargs))


async def _tool_async(target: ToolTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    if target.fatal:
        async with _Fatal(target, instance, args, kwargs):
            return await wrapped(*args, **kwargs)
    if target.turned_down is not None:
        return await _checked(target, wrapped, instance, args, kwargs)
    step = _step(target, instance, args, kwargs)
    if step is None:
        return await wrapped(*args, **kwargs)
    return await drive_async(step, partial(wrapped, *args, **kwargs))


async def _checked(target: ToolTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    result, runtime = await wrapped(*args, **kwargs), active_runtime.instrumented
    down = False
    if runtime is not None and target.turned_down is not None:
        with runtime.shield("adapter.turned_down"):
            down = target.turned_down(result)
    step = _step(target, instance, args, kwargs) if down else None

    async def given() -> Any:
        return result

    return result if step is None else await drive_async(step, given)


async def _tools_async(target: ToolTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime, parts = active_runtime.instrumented, None
    if runtime is not None and target.each is not None:
        with runtime.shield("adapter.each"):
            parts = target.each(kwargs)
    if parts is None:
        return await wrapped(*args, **kwargs)
    return [result for part in parts for result in await _tool_async(target, wrapped, instance, args, part)]


def _step(target: ToolTarget, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = active_runtime.instrumented
    if runtime is None:
        return None
    return open_call(runtime, target.adapter, instance, args, kwargs)


def _run(target: RunTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = active_runtime.instrumented
    if runtime is None:
        return wrapped(*args, **kwargs)
    return run_plain(AgentRun(runtime, target, instance, args, kwargs), partial(wrapped, *args, **kwargs))


def _run_background(target: RunTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = active_runtime.instrumented
    if runtime is None:
        return wrapped(*args, **kwargs)
    return run_background(AgentRun(runtime, target, instance, args, kwargs), partial(wrapped, *args, **kwargs))


def _run_context(target: RunTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001
    runtime, manager = active_runtime.instrumented, wrapped(*args, **kwargs)
    if runtime is None:
        return manager
    return RunContext(lambda run: AgentRun(runtime, target, run, args, kwargs), manager)


async def _run_async(target: RunTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = active_runtime.instrumented
    if runtime is None:
        return await wrapped(*args, **kwargs)
    return await run_async(AgentRun(runtime, target, instance, args, kwargs), partial(wrapped, *args, **kwargs))


def _run_generator(target: RunTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = active_runtime.instrumented
    run = partial(wrapped, *args, **kwargs)
    return run() if runtime is None else run_generator(partial(AgentRun, runtime, target, instance, args, kwargs), run)


def _run_async_generator(target: RunTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = active_runtime.instrumented
    run = partial(wrapped, *args, **kwargs)
    if runtime is None:
        return run()
    return run_async_generator(partial(AgentRun, runtime, target, instance, args, kwargs), run)


_RUNS: dict[CallStyle, Callable[..., Any]] = {
    CallStyle.SYNC: _run,
    CallStyle.BACKGROUND: _run_background,
    CallStyle.CONTEXT: _run_context,
    CallStyle.ASYNC: _run_async,
    CallStyle.GENERATOR: _run_generator,
    CallStyle.ASYNC_GENERATOR: _run_async_generator,
}
