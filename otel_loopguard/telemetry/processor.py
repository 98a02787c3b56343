"""The span processor: judges a call inline, when its span starts, and before its tool runs.

This is the only file that imports the SDK. ``on_start`` is the only place where a processor can still write on a
span, and an exception raised in a processor would reach the program: hence the shield around each method. Programs
make many spans that are no tool calls, so what is done for each of them is little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import SpanProcessor

from otel_loopguard.spans.dialects import SIGNS, SPAN_NAMES
from otel_loopguard.spans.open_spans import attributes_of
from otel_loopguard.telemetry.call_span import PENDING, PendingCall
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

    from otel_loopguard.telemetry.attached import Attachments


class LoopGuardSpanProcessor(SpanProcessor):
    """Finds the pending call in the context that a span is started with, and has it judged.

    Tool spans of other instrumentations are judged when they end, because most of them say only then what they are.
    """

    def __init__(self, attached: Attachments) -> None:
        self._attached = attached

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """A span has started: if it is a tool call of ours, now it is judged."""
        target = self._attached.target
        if target is None:
            return
        try:
            context = otel_context.get_current() if parent_context is None else parent_context
            pending = context.get(PENDING)
            if pending is None:
                scope = current_scope()
                if scope is not None and scope.inside is not None:
                    target.foreign.layer(span)
            elif isinstance(pending, PendingCall):
                pending.announce(span)
                target.foreign.guarded(span, pending.call.tool)
            target.opened(span)
        except Exception as error:  # noqa: BLE001 - the shield, without the cost of its ``with``
            target.shield.take("processor.on_start", error)

    def on_end(self, span: ReadableSpan) -> None:
        """A span has ended: if it is somebody else's tool call, now it is looked at."""
        target = self._attached.target
        if target is None:
            return
        try:
            if target.closed(span) and (
                not SIGNS.isdisjoint(attributes_of(span)) or span._name.startswith(SPAN_NAMES)  # noqa: SLF001 - as fast
            ):
                target.foreign.ended(span)
            if target.foreign.marks:
                target.foreign.over(span)
        except Exception as error:  # noqa: BLE001 - as above
            target.shield.take("processor.on_end", error)

    def shutdown(self) -> None:
        """The provider is shut down; calls go on being judged without spans."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's signature
        """There is never anything to flush."""
        return True
