"""The wrappers around a framework's functions: one for each kind of target and style of call."""

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
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import CallStyle, CallTarget, RunTarget, ToolTarget
from otel_loopguard.instrumentation.tool_call import GuardedCall
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.instrumentation.targets import Target, ToolAdapter


def wrapper_of(target: Target) -> Callable[..., Any]:
    """Return the wrapper of this target's function, as wrapt calls it: (wrapped, instance, args, kwargs)."""
    if isinstance(target, CallTarget):
        return partial(_call, target)
    if isinstance(target, RunTarget):
        return partial(_RUNS[target.style], target)
    if target.each is not None:
        return partial(_tools_async, target)
    is_async = target.style is CallStyle.ASYNC
    if target.fatal:
        return partial(_fatal_tool_async if is_async else _fatal_tool, target)
    if target.turned_down is not None:
        return partial(_checked_tool_async, target)
    return partial(_tool_async if is_async else _tool, target)


def open_call(runtime: Runtime, adapter: ToolAdapter, instance: Any, args: Any, kwargs: Any) -> GuardedCall | None:
    """Open a guarded call. None for a layer of another call, for something that is no tool call, and after a fault."""
    if garbage_collector.thread is not None and garbage_collector.runs_here():
        return None
    if runtime.deferred_ends:
        runtime.end_deferred()
    scope = current_scope()
    if scope is not None and scope.call is not None and not adapter.by_run:
        return None
    try:
        reading = adapter.read(instance, args, kwargs)
        if reading is not None:
            scope = runtime.attribution.of_call(reading.conversation_id, reading.agent_name, reading.run_id)
            if scope is not None:
                return GuardedCall(runtime, adapter, reading, scope)
    except Exception as error:  # noqa: BLE001 - see Shield.take
        runtime.shield.take("adapter.read", error)
    return None


# --- tool calls --------------------------------------------------------------------------------------------------


def _tool(target: ToolTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = active_runtime.instrumented
    call = None if runtime is None else open_call(runtime, target.adapter, instance, args, kwargs)
    if call is None:
        return wrapped(*args, **kwargs)
    with call:
        return call.answer if call.answered else call.result(wrapped(*args, **kwargs))


async def _tool_async(target: ToolTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    runtime = active_runtime.instrumented
    call = None if runtime is None else open_call(runtime, target.adapter, instance, args, kwargs)
    if call is None:
        return await wrapped(*args, **kwargs)
    async with call:
        return call.answer if call.answered else await call.aresult(await wrapped(*args, **kwargs))


async def _tools_async(target: ToolTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Wrap a function that handles several calls at once."""
    runtime, parts = active_runtime.instrumented, None
    if runtime is not None and target.each is not None:
        with runtime.shield("adapter.each"):
            parts = target.each(kwargs)
    if parts is None:
        return await wrapped(*args, **kwargs)
    return [result for part in parts for result in await _tool_async(target, wrapped, instance, args, part)]


async def _checked_tool_async(target: ToolTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Wrap a check before the place where tools run: a call that it turns down has its result."""
    result, runtime = await wrapped(*args, **kwargs), active_runtime.instrumented
    if runtime is None or target.turned_down is None:
        return result
    turned_down = False
    with runtime.shield("adapter.turned_down"):
        turned_down = target.turned_down(result)
    call = open_call(runtime, target.adapter, instance, args, kwargs) if turned_down else None
    if call is None:
        return result
    async with call:
        return call.answer if call.answered else await call.aresult(result)


def _fatal_tool(target: ToolTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    """Wrap a function in which a call is seen only when it fails."""
    try:
        return wrapped(*args, **kwargs)
    except Exception:
        runtime = active_runtime.instrumented
        call = None if runtime is None else open_call(runtime, target.adapter, instance, args, kwargs)
        if call is None:
            raise
        with call:
            raise


async def _fatal_tool_async(target: ToolTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    try:
        return await wrapped(*args, **kwargs)
    except Exception:
        runtime = active_runtime.instrumented
        call = None if runtime is None else open_call(runtime, target.adapter, instance, args, kwargs)
        if call is None:
            raise
        async with call:
            raise


# --- runs, and anything else -------------------------------------------------------------------------------------


def _call(target: CallTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
    if active_runtime.instrumented is None:
        return wrapped(*args, **kwargs)
    return target.wrapper(wrapped, instance, args, kwargs)


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


def _run_context(target: RunTarget, wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001 - the signature of the caller
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
