"""The span of an agent's run: it puts the calls of a turn into one trace, in a program without other spans."""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.trace import Status, StatusCode

from otel_loopguard import semconv
from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.telemetry.call_span import InContext
from otel_loopguard.turns.scope import CALL, NO_CALL

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span
    from typing_extensions import Self

    from otel_loopguard.telemetry.providers import Providers
    from otel_loopguard.turns.scope import Scope


class RunSpan(InContext):
    """An open span ``invoke_agent``. It is the current span only while the agent's code runs."""

    def __init__(self, providers: Providers, scope: Scope, span: Span, around: Context, began: int) -> None:
        self._providers = providers
        self._scope = scope
        self._span = span
        self._began = began
        self._calls_before = scope.turn.calls
        self.around = around
        # A span that is sampled out is not entered: other providers would drop their spans inside it.
        self.context = trace.set_span_in_context(span, around) if span.is_recording() else None

    @classmethod
    def start(cls, providers: Providers, scope: Scope) -> Self | None:
        """Start the span of a run. Return None inside of any other span, whose trace has the calls already."""
        around = otel_context.get_current()
        if around.get(_SUPPRESS_INSTRUMENTATION_KEY) or trace.get_current_span(around).get_span_context().is_valid:
            return None
        attributes: dict[str, str | bool] = {
            semconv.OPERATION_NAME: semconv.OPERATION_INVOKE_AGENT,
            semconv.TURN_ID: scope.turn.id,
            semconv.TURN_SOURCE: scope.turn.source,
            semconv.OWN_TRACE: True,
            **providers.conversation_attributes(scope.conversation_id),
        }
        name = semconv.OPERATION_INVOKE_AGENT
        if scope.agent_name is not None:
            attributes[semconv.AGENT_NAME] = scope.agent_name
            name = f"{name} {clean_name(scope.agent_name)}"
        # ``NO_CALL``: our span processor ignores this span.
        ours = otel_context.set_value(CALL, NO_CALL, around)
        began = time_ns()
        span = providers.outlets().tracer.start_span(name, context=ours, attributes=attributes, start_time=began)
        return cls(providers, scope, span, around, began)

    def end(self, error: BaseException | None) -> None:
        """End the span, and record the time and the calls. Write an error's class only: its text may quote values."""
        error_type = None if error is None else type(error).__qualname__
        if error_type is not None:
            self._span.set_attribute(semconv.ERROR_TYPE, error_type)
            self._span.set_status(Status(StatusCode.ERROR))
        ended = time_ns()
        self._span.end(ended)
        if semconv.OPERATION_INVOKE_AGENT not in self._providers.unmeasured:
            calls = self._scope.turn.calls - self._calls_before
            seconds, agent = (ended - self._began) / 1e9, self._scope.agent_name
            context = trace.set_span_in_context(self._span, self.around)
            self._providers.outlets().meters.genai.agent_ran(seconds, calls, agent, error_type, context)
