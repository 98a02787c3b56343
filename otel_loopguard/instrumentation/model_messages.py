"""The calls that a model has written in one message.

In a framework that runs them one after the other, tell which they are. In one that runs them side by side, end them
together.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opentelemetry.context import get_current

from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.aborts import LoopAbort
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.turns.scope import current_scope, in_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from contextlib import AbstractContextManager

    from otel_loopguard.instrumentation.targets import Original
    from otel_loopguard.turns.scope import Scope

_KEY: Final = "model message"
_LAST: Final = "last model message"
_TASKS: Final = "tasks of calls"


def tick_of_message(message: Hashable, scope: Scope | None = None) -> int | None:
    """Return the turn's tick when the model wrote this message, for ``ToolCall.written``; None outside of a run.

    That is the tick of the message's first call. ``message``: a key that no other message of the run has. ``scope``: of
    the run, if the code that makes its calls may run outside of it.
    """
    scope = scope or current_scope()
    if scope is None or scope.run_state is None or scope.call is not None:
        return None
    tick: int = scope.run_state.steps.setdefault((_KEY, message), scope.turn.tick)
    return tick


class ModelMessage(NamedTuple):
    """A message of the model, whose calls are made elsewhere: in tasks, in threads or by the model's code."""

    tick: int | None = None
    """The turn's tick when it was written, for ``ToolCall.written``; None if that is not known."""
    about: Any = None
    """Any value that the patches of the framework have noted."""


_NOT_NOTED: Final = ModelMessage()


def note_message(framework: str, about: Any = None) -> None:
    """Note that the model of this run has written a message. May fail: the caller holds the shield."""
    scope = current_scope()
    if scope is not None and scope.run_state is not None and scope.call is None:
        scope.run_state.steps[_LAST, framework] = ModelMessage(scope.turn.tick, about)
        scope.run_state.span_context = get_current()  # a thread may make the calls without it


def last_message(framework: str) -> ModelMessage:
    """Return the run's last message that ``note_message`` has noted for this framework; an empty one if none was."""
    scope = current_scope()
    noted = None if scope is None or scope.run_state is None else scope.run_state.steps.get((_LAST, framework))
    return noted or _NOT_NOTED


def message_tick() -> int | None:
    """Return the turn's tick when the model wrote the message whose calls are made here; None if it is not known."""
    scope = current_scope()
    return None if scope is None else scope.message_tick


def one_message() -> AbstractContextManager[None]:
    """Return a context manager for a block that makes all calls of one message: its scope has the turn's tick."""
    runtime, scope = active_runtime.instrumented, current_scope()
    if runtime is not None and scope is not None and scope.call is None:
        with runtime.shield("adapter.message"):
            return in_scope(scope.of_message(scope.turn.tick))
    return nullcontext()


def calls_of_one_message(original: Original) -> Callable[..., Any]:
    """Wrap a coroutine function that makes all calls of one message: the ``wrapper`` of a ``CallTarget``."""

    async def calls(*given: Any, **kwargs: Any) -> Any:
        wrapped, _, args = original.bind(given)
        with one_message():
            return await wrapped(*args, **kwargs)

    return calls


def ends_the_others(guarded: Callable[..., Any]) -> Callable[..., Any]:
    """Cancel the run's other calls when one of them ends the run: the ``around`` of a ``ToolTarget``.

    For frameworks that run each call in an asyncio task, and leave the others alone if one raises. A thread goes on.
    """

    @wraps(guarded)
    async def call(*given: Any, **kwargs: Any) -> Any:
        runtime, scope, own = active_runtime.instrumented, current_scope(), None
        tasks: set[Any] = set()
        if runtime is not None and scope is not None and scope.run_state is not None and scope.call is None:
            with runtime.shield("adapter.tasks"):
                tasks, own = scope.run_state.steps.setdefault(_TASKS, tasks), asyncio.current_task()
                tasks.add(own)
        try:
            return await guarded(*given, **kwargs)
        except (RunStopped, LoopAbort):
            for task in tasks - {own}:
                task.cancel()  # it ends after this one, so the framework gets this error first
            raise
        finally:
            tasks.discard(own)

    return call
