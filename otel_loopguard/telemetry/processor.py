"""The span processor: it judges a call when its span starts, before its tool runs.

In a guarded program no other file imports the SDK. A processor can write on a span in ``on_start`` only. Its
exceptions would reach the program, so each method is shielded. Most spans are no tool calls: little is done for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import SpanProcessor

from otel_loopguard.semconv import TURN_ID
from otel_loopguard.spans.dialects import SIGNS
from otel_loopguard.spans.open_spans import attributes_of
from otel_loopguard.turns.scope import CALL, NO_CALL, current_scope

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

    from otel_loopguard.telemetry.idle_watcher import WaitingWatcher
    from otel_loopguard.telemetry.watcher import SpanWatcher

    Watcher: TypeAlias = SpanWatcher | WaitingWatcher


class HasWatcher(Protocol):
    """The owner of the current watcher. A processor stays with its provider, while watchers come and go."""

    watcher: Watcher | None
    """None while the guard is off."""


class LoopGuardSpanProcessor(SpanProcessor):
    """Call a guarded call back when its span starts: the context that the span is started with has the call.

    A tool span of another instrumentation is judged when it ends: most get their attributes only then.
    """

    def __init__(self, current: HasWatcher) -> None:
        self._current = current

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Judge the call, if this is the span of a guarded call."""
        watcher = self._current.watcher
        if watcher is None:
            return
        try:
            context = otel_context.get_current() if parent_context is None else parent_context
            call: Any = context.get(CALL)
            if call is NO_CALL:
                return
            if call is not None:
                call.decide(span)
                watcher.mark_counted(span, call.call.tool)
            else:
                scope = current_scope()
                if scope is not None and scope.call is not None:
                    watcher.mark_layer(span)
            watcher.open_spans.started(span)
        except Exception as error:  # noqa: BLE001 - the shield, without the cost of its ``with``
            watcher.shield.take("processor.on_start", error)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass a tool span of another instrumentation to the watcher."""
        watcher = self._current.watcher
        if watcher is None:
            return
        try:
            if watcher.open_spans.ended(span):
                attributes = attributes_of(span)
                # A span with a turn id is ours, or we wrote on it.
                if not SIGNS.isdisjoint(attributes) and TURN_ID not in attributes:
                    watcher.judge(span)
            if watcher.marks:
                watcher.close_turn_of(span)
        except Exception as error:  # noqa: BLE001 - as above
            watcher.shield.take("processor.on_end", error)

    def shutdown(self) -> None:
        """Do nothing: after the provider is shut down, calls are judged without spans."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's signature
        """Return True: there is nothing to flush."""
        return True
