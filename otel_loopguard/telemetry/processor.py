"""The span processor: judges a call inline, when its span starts, and before its tool runs.

This is the only file that imports the SDK. ``on_start`` is the only place where a processor can still write on a
span, and an exception raised in a processor would reach the program: hence the shield around each method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import SpanProcessor

from .pending import PENDING, PendingCall

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

    from .agent_spans import AgentSpans
    from .shield import Shield


class LoopGuardSpanProcessor(SpanProcessor):
    """Finds the pending call in the context that a span is started with, and has it judged."""

    def __init__(self, shield: Shield, agent_spans: AgentSpans) -> None:
        self._start_shield = shield("processor.on_start")
        self._end_shield = shield("processor.on_end")
        self._agent_spans = agent_spans
        self.enabled = True

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """A span has started: if it is a tool call of ours, now it is judged."""
        if not self.enabled:
            return
        with self._start_shield:
            context = otel_context.get_current() if parent_context is None else parent_context
            pending = context.get(PENDING)
            if isinstance(pending, PendingCall):
                pending.announce(span)
            else:
                self._agent_spans.started(span)

    def on_end(self, span: ReadableSpan) -> None:
        """A span has ended."""
        with self._end_shield:
            self._agent_spans.ended(span)

    def shutdown(self) -> None:
        """The provider is shut down; calls go on being judged without spans."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's signature
        """There is never anything to flush."""
        return True
