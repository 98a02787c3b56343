"""The span of an agent's run: it puts the calls of a turn into one trace, in a program without other spans."""

from __future__ import annotations

from hashlib import blake2b
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags

from otel_loopguard import semconv
from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.spans.turn_ledger import attributes_of
from otel_loopguard.telemetry.call_span import InContext
from otel_loopguard.turns.scope import CALL, NO_CALL

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span
    from typing_extensions import Self

    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.telemetry.providers import Providers
    from otel_loopguard.turns.scope import Scope

_TRACE_ID_BYTES: Final = 16
_SPAN_ID_BYTES: Final = 8


class RunSpan(InContext):
    """An open span ``invoke_agent``. It is the current span only while the agent's code runs."""

    def __init__(self, providers: Providers, scope: Scope, span: Span, around: Context, began: int) -> None:
        self._providers = providers
        self._scope = scope
        self._span = span
        self._began = began
        self._calls_before, self._requests_before = scope.turn.calls, scope.turn.current.history.spent.requests
        self.around = around
        self.inside = trace.set_span_in_context(span, around)
        """The context with the span."""
        # A span that is sampled out is not entered: other providers would drop their spans inside it.
        self.context = self.inside if span.is_recording() else None

    @property
    def otel_span(self) -> Span:
        """The span of OpenTelemetry."""
        return self._span

    @classmethod
    def start(cls, providers: Providers, scope: Scope, *, is_inside: bool = False) -> Self | None:
        """Start the span of a run. Return None inside of any other span, whose trace has the calls already.

        ``is_inside``: start it there, too.
        """
        around = otel_context.get_current()
        has_parent = trace.get_current_span(around).get_span_context().is_valid
        if around.get(_SUPPRESS_INSTRUMENTATION_KEY) or (has_parent and not is_inside):
            return None
        attributes: dict[str, str | bool] = {
            semconv.OPERATION_NAME: semconv.OPERATION_INVOKE_AGENT,
            semconv.TURN_ID: scope.turn.id,
            semconv.TURN_SOURCE: scope.turn.source,
            **providers.conversation_attributes(scope.conversation_id),
        }
        if not has_parent:
            attributes[semconv.OWN_TRACE] = True
        name = semconv.OPERATION_INVOKE_AGENT
        if scope.agent_name is not None:
            attributes[semconv.AGENT_NAME] = scope.agent_name
            name = f"{name} {clean_name(scope.agent_name)}"
        # ``NO_CALL``: our span processor ignores this span.
        ours = otel_context.set_value(CALL, NO_CALL, around)
        tracer, began = providers.outlets().tracer, time_ns()
        if not has_parent:
            ours = _in_trace_of(scope.turn, tracer, name, ours)
        span = tracer.start_span(name, context=ours, attributes=attributes, start_time=began)
        return cls(providers, scope, span, around, began)

    def end(self, error: BaseException | None, how: str | None = None, *, idle: float = 0.0) -> None:
        """End the span, and record the time and the calls. Write an error's class only: its text may quote values.

        ``how``: how the turn has ended; None if it goes on. ``idle``: the seconds since the last step.
        """
        if how is not None:
            self._span.set_attributes({semconv.TURN_END: how, **attributes_of(self._scope.turn.ledger)})
        error_type = None if error is None else type(error).__qualname__
        if error_type is not None:
            self._span.set_attribute(semconv.ERROR_TYPE, error_type)
            self._span.set_status(Status(StatusCode.ERROR))
        ended = max(self._began, time_ns() - int(idle * 1e9))
        self._span.end(ended)
        if semconv.OPERATION_INVOKE_AGENT not in self._providers.unmeasured:
            turn, seconds, genai = self._scope.turn, (ended - self._began) / 1e9, self._providers.outlets().meters.genai
            genai.agent_ran(
                seconds, self._scope.agent_name, error_type, self.inside,
                calls=turn.calls - self._calls_before,
                requests=turn.current.history.spent.requests - self._requests_before,
            )  # fmt: skip


class TurnSpan:
    """The ``invoke_agent`` span of a turn that no framework runs: of a block, or of requests to a model.

    It is never the current span, but the parent of calls that have no other one. It is written when the turn ends,
    unless another instrumentation has written a span of an agent in the turn by then.
    """

    def __init__(self, span: RunSpan) -> None:
        self._span: RunSpan | None = span
        self.around = span.around
        """The context that the turn began in."""
        self.context: Context | None = span.inside
        """The context with the span, also if it is sampled out: then its calls are, too. None if it was dropped."""

    @classmethod
    def start(cls, providers: Providers, scope: Scope) -> None:
        """Start the span of the scope's turn."""
        span = RunSpan.start(providers, scope, is_inside=True)
        if span is not None:
            scope.turn.span = cls(span)

    @property
    def otel_span(self) -> Span:
        """The span; one that records nothing if it was dropped or has ended."""
        return trace.INVALID_SPAN if self._span is None else self._span.otel_span

    def drop(self) -> None:
        """Do not write the span: another instrumentation has one of the same agent."""
        self._span = self.context = None

    def end(self, error: BaseException | None, how: str, idle: float) -> None:
        """Write the span, once."""
        span, self._span = self._span, None
        if span is not None:
            span.end(error, how, idle=idle)


def _in_trace_of(turn: Turn, tracer: Any, name: str, context: Context) -> Context:
    """Return the context in which the spans that processes start of one shared turn are in one trace.

    Its id, and that of a parent which nobody writes, are made from the turn's id, if the program has given that. The
    sampler decides as for a span without a parent; it decides by the id of the trace, so all processes agree.
    """
    sampler = getattr(tracer, "sampler", None)  # the SDK's
    if sampler is None or turn.cell is None or not turn.cell.names_turn:
        return context
    digest = blake2b(turn.id.encode("utf-8", "surrogatepass"), digest_size=_TRACE_ID_BYTES + _SPAN_ID_BYTES).digest()
    trace_id, span_id = (int.from_bytes(part, "big") for part in (digest[:_TRACE_ID_BYTES], digest[_TRACE_ID_BYTES:]))
    is_sampled = sampler.should_sample(context, trace_id, name).decision.is_sampled()
    flags = TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT)
    parent = NonRecordingSpan(SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags))
    return trace.set_span_in_context(parent, context)
