"""Runs of a graph and of LangChain's older executor: how they start, and if they can be resumed after their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.aborts import LoopAbort
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import CallStyle, CallTarget, RunTarget
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.instrumentation.targets import Original, Target


def conversation(*configs: Any) -> str | None:
    """Return the thread id of the first configuration that has one. Its section differs between versions."""
    for config in configs:
        if isinstance(config, dict):
            for section in ("configurable", "metadata"):
                thread = (config.get(section) or {}).get("thread_id")
                if thread is not None:
                    return str(thread)
    return None


def _read_graph(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    given = args[0] if args else kwargs.get("input")
    config = args[1] if len(args) > 1 else kwargs.get("config")
    name = getattr(instance, "name", None)
    return RunInfo(
        conversation_id=conversation(config, getattr(instance, "config", None)),
        agent_name=None if name == "LangGraph" else name,
        resumes=given is None or getattr(given, "resume", None) is not None,
        can_continue=False,  # unless ``_leave`` notes that it can be resumed
    )


def _read_executor(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo | None:
    if not any(kind.__name__ == "AgentExecutor" for kind in type(instance).__mro__):
        return None  # any other chain
    config = kwargs.get("config") or (args[1] if len(args) > 1 else None)
    return RunInfo(conversation(config), can_continue=False)


def _tick(original: Original) -> Callable[..., Any]:
    """Raise the error of an aborted run when a step is committed: its last call has an answer in the checkpoint."""
    wrapped = original.unbound

    def tick(*given: Any, **kwargs: Any) -> Any:
        scope = current_scope() if active_runtime.instrumented is not None else None
        run_state = None if scope is None else scope.run_state
        if run_state is None:
            return wrapped(*given, **kwargs)
        run_state.has_steps = True
        result = wrapped(*given, **kwargs)  # until langgraph 0.4 it commits the step before, later that is done already
        run_state.abort_waits = False
        if run_state.abort_error is not None:
            raise LoopAbort(run_state.abort_error) from None
        return result

    return tick


def _leave(original: Original) -> Callable[..., Any]:
    """Wrap the end of a graph's loop: note if its run can be resumed. Every way of running a graph ends here."""

    def leave(*given: Any, **kwargs: Any) -> Any:
        wrapped, loop, args = original.bind(given)
        _note_end(loop, args)
        return wrapped(*args, **kwargs)

    return leave


def _leave_async(original: Original) -> Callable[..., Any]:
    async def leave(*given: Any, **kwargs: Any) -> Any:
        wrapped, loop, args = original.bind(given)
        _note_end(loop, args)
        return await wrapped(*args, **kwargs)

    return leave


def _note_end(loop: Any, args: tuple[Any, ...]) -> None:
    runtime, scope = active_runtime.instrumented, current_scope()
    if runtime is not None and scope is not None and scope.run_state is not None:
        scope.run_state.abort_waits = False
        with runtime.shield("adapter.leave"):
            if _is_resumable(loop, args[1]):
                scope.run_state.resumable = True


def _is_resumable(loop: Any, error: BaseException | None) -> bool:
    """Return True if the loop did not finish (an interrupt is an exception here) and has a checkpoint."""
    if loop.is_nested or loop.checkpointer is None:
        return False
    return error is not None or loop.status == "out_of_steps"


RUNS: tuple[Target, ...] = (
    RunTarget("langgraph.pregel.main", "Pregel.stream", _read_graph, CallStyle.GENERATOR),
    RunTarget("langgraph.pregel.main", "Pregel.astream", _read_graph, CallStyle.ASYNC_GENERATOR),
    # The class was defined here until langgraph 0.5. Now it is the same class, patched already.
    RunTarget("langgraph.pregel", "Pregel.stream", _read_graph, CallStyle.GENERATOR),
    RunTarget("langgraph.pregel", "Pregel.astream", _read_graph, CallStyle.ASYNC_GENERATOR),
    *(
        CallTarget(f"langgraph.pregel.{module}", path, wrapper)
        for module in ("_loop", "loop")
        for path, wrapper in (
            ("PregelLoop.tick", _tick),
            ("SyncPregelLoop.__exit__", _leave),
            ("AsyncPregelLoop.__aexit__", _leave_async),
        )
    ),
    *(
        RunTarget(f"{package}.{path}", f"{owner}.{method}", _read_executor, style)
        for package in ("langchain_classic", "langchain")
        for path, owner, method, style in (
            ("chains.base", "Chain", "invoke", CallStyle.SYNC),
            ("chains.base", "Chain", "ainvoke", CallStyle.ASYNC),
            ("agents.agent", "AgentExecutor", "stream", CallStyle.GENERATOR),
            ("agents.agent", "AgentExecutor", "astream", CallStyle.ASYNC_GENERATOR),
        )
    ),
)
