"""The functions that replace a framework's own: one for each kind of target and style of call.

They are plain functions, coroutine functions and generator functions, as the originals are: programs copy, pickle and
inspect them. ``Original.bind`` gives the original, bound to its instance.

What surrounds the program's own code is written for plain and for async code. One generator for both would put three
or more frames into a traceback in place of one, and make a ``RuntimeError`` of a ``StopIteration`` that passes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.agent_run import (
    AgentRun,
    RunContext,
    async_generator_of_run,
    generator_of_run,
    run_async,
    run_background,
    run_plain,
)
from otel_loopguard.instrumentation.call import GuardedCall, drive_async
from otel_loopguard.instrumentation.lasting_calls import lasting_stream, lasting_tool, lasting_tool_async
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import CallStyle, CallTarget, RunTarget, ToolTarget
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.instrumentation.targets import Original, Target, ToolAdapter

__tracebackhide__ = True  # pytest shows the lines of the program, not these


def wrapper_of(target: Target, original: Original) -> Callable[..., Any]:
    """Return the function that replaces the target's function: plain, coroutine or generator, as its style says."""
    if isinstance(target, CallTarget):
        return target.wrapper(original)
    if isinstance(target, RunTarget):
        return _RUNS[target.style](target, original)
    if target.each is not None:
        return _tools_async(target, original)
    is_async = target.style is CallStyle.ASYNC
    if target.fatal:
        return (_fatal_tool_async if is_async else _fatal_tool)(target, original)
    if target.style is CallStyle.ASYNC_GENERATOR:
        return lasting_stream(open_call, target, original)
    if target.items is not None:
        return (lasting_tool_async if is_async else lasting_tool)(open_call, target, target.items, original)
    if target.turned_down is not None:
        return _checked_tool_async(target, original)
    guarded = (_tool_async if is_async else _tool)(target, original)
    return guarded if target.around is None else target.around(guarded)


def open_call(
    runtime: Runtime | None, adapter: ToolAdapter, instance: Any, args: Any, kwargs: Any
) -> GuardedCall | None:
    """Return a guarded call that is not entered yet; None if the function is to run without a guard.

    That is so if it is no tool call, or a layer of the call around it, without a runtime, and after a fault.
    """
    if runtime is None or (garbage_collector.running and garbage_collector.runs_here()):
        return None
    if runtime.deferred_ends:
        runtime.end_deferred()
    outer = current_scope()
    if outer is not None and outer.call is not None and not adapter.by_run:
        return None
    try:
        reading = adapter.read(instance, args, kwargs)
        if reading is not None:
            call, conversation_id, agent_name, run_id, session, _, _, _ = reading
            scope = runtime.attribution.of_call(call, conversation_id, agent_name, run_id, session)
            if scope is not None:
                return GuardedCall(runtime, adapter, reading, scope, outer)
    except Exception as error:  # noqa: BLE001 - see Shield.take
        runtime.shield.take("adapter.read", error)
    return None


# --- tool calls --------------------------------------------------------------------------------------------------


def _tool(target: ToolTarget, original: Original) -> Callable[..., Any]:
    function, is_method = original.unbound, original.get is not None

    def guarded(*given: Any, **kwargs: Any) -> Any:
        instance, args = (given[0], given[1:]) if is_method and given else (None, given)
        call = open_call(active_runtime.instrumented, target.adapter, instance, args, kwargs)
        if call is None:
            return function(*given, **kwargs)
        try:  # no driver: a traceback through a tool has one frame of this package
            with call:
                return call.answer if call.answered else call.result(function(*given, **kwargs))
        except BaseException as error:
            call.cut_short()
            if call.take_inner_abort(error):
                return call.answer
            raise

    return guarded


def _tool_async(target: ToolTarget, original: Original) -> Callable[..., Any]:
    function, is_method = original.unbound, original.get is not None

    async def guarded(*given: Any, **kwargs: Any) -> Any:
        instance, args = (given[0], given[1:]) if is_method and given else (None, given)
        call = open_call(active_runtime.instrumented, target.adapter, instance, args, kwargs)
        if call is None:
            return await function(*given, **kwargs)
        try:  # as above
            async with call:
                return call.answer if call.answered else await call.aresult(await function(*given, **kwargs))
        except BaseException as error:
            call.cut_short()
            if call.take_inner_abort(error):
                return call.answer
            raise

    return guarded


def _tools_async(target: ToolTarget, original: Original) -> Callable[..., Any]:
    """Wrap a function that handles several calls at once."""
    one = _tool_async(target, original)

    async def guarded(*given: Any, **kwargs: Any) -> Any:
        runtime, parts = active_runtime.instrumented, None
        if runtime is not None and target.each is not None:
            with runtime.shield("adapter.each"):
                parts = target.each(kwargs)
        if parts is None:
            wrapped, _, args = original.bind(given)
            return await wrapped(*args, **kwargs)
        return [result for part in parts for result in await one(*given, **part)]

    return guarded


def _checked_tool_async(target: ToolTarget, original: Original) -> Callable[..., Any]:
    """Wrap a check that runs before a tool. If it turns the call down, its result is the outcome of the call."""

    async def guarded(*given: Any, **kwargs: Any) -> Any:
        wrapped, instance, args = original.bind(given)
        result, runtime = await wrapped(*args, **kwargs), active_runtime.instrumented
        if runtime is None or target.turned_down is None:
            return result
        turned_down = False
        with runtime.shield("adapter.turned_down"):
            turned_down = target.turned_down(result)
        call = open_call(runtime, target.adapter, instance, args, kwargs) if turned_down else None
        if call is None:
            return result

        async def known() -> Any:
            return result

        return await drive_async(call, known)

    return guarded


def _fatal_tool(target: ToolTarget, original: Original) -> Callable[..., Any]:
    """Wrap a function that shows a call only by raising. The call is judged as a failure, and the exception goes on."""

    def guarded(*given: Any, **kwargs: Any) -> Any:
        wrapped, instance, args = original.bind(given)
        try:
            return wrapped(*args, **kwargs)
        except Exception:
            call = open_call(active_runtime.instrumented, target.adapter, instance, args, kwargs)
            if call is None:
                raise
            try:
                with call:
                    raise
            finally:
                call.cut_short()

    return guarded


def _fatal_tool_async(target: ToolTarget, original: Original) -> Callable[..., Any]:
    async def guarded(*given: Any, **kwargs: Any) -> Any:
        wrapped, instance, args = original.bind(given)
        try:
            return await wrapped(*args, **kwargs)
        except Exception:
            call = open_call(active_runtime.instrumented, target.adapter, instance, args, kwargs)
            if call is None:
                raise
            try:
                async with call:
                    raise
            finally:
                call.cut_short()

    return guarded


# --- runs --------------------------------------------------------------------------------------------------------


def _run(start: Callable[..., Any], target: RunTarget, original: Original) -> Callable[..., Any]:
    """Wrap a plain function that is a run, or that starts one which goes on in the background."""

    def guarded(*given: Any, **kwargs: Any) -> Any:
        agent_run, run = _open_run(target, original, given, kwargs)
        return run() if agent_run is None else start(agent_run, run)

    return guarded


def _run_context(target: RunTarget, original: Original) -> Callable[..., Any]:
    def guarded(*given: Any, **kwargs: Any) -> Any:
        wrapped, _, args = original.bind(given)
        runtime, manager = active_runtime.instrumented, wrapped(*args, **kwargs)
        if runtime is None:
            return manager
        return RunContext(lambda run: AgentRun(runtime, target, run, args, kwargs), manager)

    return guarded


def _run_async(target: RunTarget, original: Original) -> Callable[..., Any]:
    async def guarded(*given: Any, **kwargs: Any) -> Any:
        agent_run, run = _open_run(target, original, given, kwargs)
        return await (run() if agent_run is None else run_async(agent_run, run))

    return guarded


def _run_generator(make: Callable[..., Any], target: RunTarget, original: Original) -> Callable[..., Any]:
    return make(partial(_open_run, target, original))  # type: ignore[no-any-return]  # a generator function


def _open_run(
    target: RunTarget, original: Original, given: Any, kwargs: Any
) -> tuple[AgentRun | None, Callable[[], Any]]:
    """Return the run, None without a runtime, and the function that starts it."""
    wrapped, instance, args = original.bind(given)
    runtime = active_runtime.instrumented
    agent_run = None if runtime is None else AgentRun(runtime, target, instance, args, kwargs)
    return agent_run, partial(wrapped, *args, **kwargs)


_RUNS: dict[CallStyle, Callable[[RunTarget, Original], Callable[..., Any]]] = {
    CallStyle.SYNC: partial(_run, run_plain),
    CallStyle.BACKGROUND: partial(_run, run_background),
    CallStyle.CONTEXT: _run_context,
    CallStyle.ASYNC: _run_async,
    CallStyle.GENERATOR: partial(_run_generator, generator_of_run),
    CallStyle.ASYNC_GENERATOR: partial(_run_generator, async_generator_of_run),
}
