"""The span processor: a call is judged inline, when its span starts and before its tool runs.

This is the only file that imports the SDK. ``on_start`` is the only place where a processor can still write on a
span. An exception in a processor would reach the program: hence the shield around each method. Programs make many
spans that are no tool calls, so little is done for each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import SpanProcessor

from otel_loopguard.semconv import TURN_ID
from otel_loopguard.spans.dialects import SIGNS
from otel_loopguard.spans.open_spans import attributes_of
from otel_loopguard.telemetry.call_span import CALL_SPAN, CallSpan
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

    from otel_loopguard.telemetry.providers import Attachments


class LoopGuardSpanProcessor(SpanProcessor):
    """Find the guarded call in the context that a span is started with, and decide about it.

    Tool spans of other instrumentations are judged when they end: most of them get their attributes only then.
    """

    def __init__(self, attachments: Attachments) -> None:
        self._attachments = attachments

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Judge the call, if this is the span of a guarded one."""
        receiver = self._attachments.receiver
        if receiver is None:
            return
        try:
            context = otel_context.get_current() if parent_context is None else parent_context
            call_span = context.get(CALL_SPAN)
            if call_span is None:
                scope = current_scope()
                if scope is not None and scope.call is not None:
                    receiver.watcher.mark_layer(span)
            elif isinstance(call_span, CallSpan):
                call_span.decide(span)
                receiver.watcher.mark_counted(span, call_span.call.tool)
            else:  # the span of a run, which is ours, too
                return
            receiver.span_started(span)
        except Exception as error:  # noqa: BLE001 - the shield, without the cost of its ``with``
            receiver.shield.take("processor.on_start", error)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass a tool span of another instrumentation to the watcher."""
        receiver = self._attachments.receiver
        if receiver is None:
            return
        try:
            if receiver.span_ended(span):
                attributes = attributes_of(span)
                # With a turn id the span is ours, or one that we wrote on.
                if not SIGNS.isdisjoint(attributes) and TURN_ID not in attributes:
                    receiver.watcher.judge(span)
            if receiver.watcher.marks:
                receiver.watcher.close_turn_of(span)
        except Exception as error:  # noqa: BLE001 - as above
            receiver.shield.take("processor.on_end", error)

    def shutdown(self) -> None:
        """Do nothing: after the provider is shut down, calls are judged without spans."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's signature
        """Return True: there is nothing to flush."""
        return True
