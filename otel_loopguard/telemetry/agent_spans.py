"""Which live agent span a span lies under: one of the ways to tell that calls belong to one message of a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry import trace

from .semconv import OPERATION_INVOKE_AGENT, OPERATION_NAME

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, Span

MOST_SPANS: Final = 20_000


class AgentSpans:
    """The live spans under an ``invoke_agent`` span, each with the outermost one of them.

    A program without agent spans pays one look at an attribute for a span. Only spans of traces that hold a live
    agent span are kept, up to a bound: spans that never end would stay for ever.
    """

    def __init__(self) -> None:
        self._agent_of: dict[int, int] = {}

    def started(self, span: Span) -> None:
        """A span has started."""
        parent = span.parent
        if self._agent_of and parent is not None:
            agent = self._agent_of.get(parent.span_id)
            if agent is not None:
                self._keep(span, agent)
                return
        attributes = span.attributes
        if attributes and attributes.get(OPERATION_NAME) == OPERATION_INVOKE_AGENT:
            context = span.get_span_context()
            if context is not None:
                self._keep(span, context.span_id)

    def _keep(self, span: Span, agent: int) -> None:
        context = span.get_span_context()
        if context is not None and len(self._agent_of) < MOST_SPANS:
            self._agent_of[context.span_id] = agent

    def ended(self, span: ReadableSpan) -> None:
        """A span has ended."""
        if self._agent_of:
            context = span.get_span_context()
            if context is not None:
                self._agent_of.pop(context.span_id, None)

    def current(self) -> int | None:
        """The id of the agent span around the running code."""
        if not self._agent_of:
            return None
        return self._agent_of.get(trace.get_current_span().get_span_context().span_id)

    def clear(self) -> None:
        """Forget all, as after a fork: the parent ends its own spans."""
        self._agent_of.clear()
