"""Give the calls of one model message the same tick. A ``ToolNode`` makes them in threads, a graph in tasks."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import CallTarget
from otel_loopguard.turns.scope import Scope, current_scope, in_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.instrumentation.targets import Original

_MOST_STEPS = 64


class _Step:
    """A step of a graph. Its tasks do not see each other's results, so they count as calls of one message."""

    __slots__ = ("began", "tasks")

    def __init__(self, began: int) -> None:
        self.began = began
        self.tasks: set[str] = set()


def _run_node(original: Original) -> Callable[..., Any]:
    wrapped = original.unbound

    def run_node(*given: Any, **kwargs: Any) -> Any:
        with _of_message(given[1:], kwargs):
            return wrapped(*given, **kwargs)

    return run_node


def _run_node_async(original: Original) -> Callable[..., Any]:
    wrapped = original.unbound

    async def run_node(*given: Any, **kwargs: Any) -> Any:
        with _of_message(given[1:], kwargs):
            return await wrapped(*given, **kwargs)

    return run_node


def _of_message(args: Any, kwargs: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Return a context manager that binds the scope of a node's calls: none outside of a run, or inside a call."""
    runtime, scope = active_runtime.instrumented, current_scope()
    if runtime is not None and scope is not None and scope.call is None:
        with runtime.shield("adapter.message"):
            config = args[1] if len(args) > 1 else kwargs["config"]
            return in_scope(scope.of_message(_message_tick(scope, config)))
    return nullcontext()


def _message_tick(scope: Scope, config: Any) -> int:
    """Return the turn's tick when the message was written: at the start of the step, whose tasks make one call each.

    A task that makes another call in the step has its own loop, whose model has read the first result: then it is now.
    """
    now, details = scope.turn.tick, config.get("metadata") or {}
    step, task = details.get("langgraph_step"), (config.get("configurable") or {}).get("__pregel_task_id")
    if scope.run_state is None or step is None or task is None:
        return now
    place = str(details.get("langgraph_checkpoint_ns") or "").rpartition("|")[0]
    steps = scope.run_state.steps
    # The first task makes the entry, before any call of the step has ended.
    this: _Step = steps.setdefault((place, step), _Step(now))
    if task in this.tasks:
        return now
    this.tasks.add(task)
    if len(steps) > _MOST_STEPS:
        steps.pop(list(steps)[0], None)  # noqa: RUF015 - list() is atomic, and other threads may write
    return this.began


PARALLEL_CALLS = (
    CallTarget("langgraph.prebuilt.tool_node", "ToolNode._func", _run_node),
    CallTarget("langgraph.prebuilt.tool_node", "ToolNode._afunc", _run_node_async),
)
