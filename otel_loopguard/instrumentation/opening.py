"""Which calls are calls of their own, and to which turn each belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.tool_call import GuardedCall
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.instrumentation.targets import Reading, ToolAdapter
    from otel_loopguard.turns.scope import Scope


def open_call(runtime: Runtime, adapter: ToolAdapter, instance: Any, args: Any, kwargs: Any) -> GuardedCall | None:
    """The step of this call; None where it is a layer of another one, none at all, or a fault of ours hides it."""
    if garbage_collector.thread is not None and garbage_collector.runs_here():
        return None
    if runtime.deferred_ends:
        runtime.end_deferred()
    inner = current_scope()
    if inner is not None and inner.inside is not None and not adapter.by_run:
        return None
    try:
        reading = adapter.read(instance, args, kwargs)
        scope = None if reading is None else _scope(runtime, reading, inner)
        if reading is not None and scope is not None:
            return GuardedCall(runtime, adapter, reading, scope)
    except Exception as error:  # noqa: BLE001 - see Shield.take
        runtime.shield.take("adapter.read", error)
    return None


def _scope(runtime: Runtime, reading: Reading, inner: Scope | None) -> Scope | None:
    """Where the call belongs; None for a layer of the call that is under way."""
    scope = None if reading.run_id is None else runtime.runs.known(reading.run_id)
    if inner is None or inner.inside is None:
        if scope is None:
            return runtime.sources.find(reading.conversation_id, reading.agent_name, reading.run_id)
    elif scope is None or scope.turn is inner.turn:
        return None
    return scope.named(reading.agent_name)
