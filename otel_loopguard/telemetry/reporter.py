"""What is told about a call: its span, its event, its measurements. Hashes and names only, never a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.trace import INVALID_SPAN, Status, StatusCode

from otel_loopguard import semconv
from otel_loopguard.core.model import Action, hash_text
from otel_loopguard.telemetry.call_span import PENDING, NativeSpan
from otel_loopguard.telemetry.events import tripped_attributes

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from otel_loopguard.core.model import Decision, Outcome, Record, Trip
    from otel_loopguard.shield import Shield
    from otel_loopguard.telemetry.call_span import PendingCall
    from otel_loopguard.telemetry.providers import Outlets, Providers

_SUPPRESSED = _SUPPRESS_INSTRUMENTATION_KEY
_SUPPRESSED_BY_OTHERS = "suppress_instrumentation"
_FAILED = Status(StatusCode.ERROR)
_OUTER, _INNER = NativeSpan.OUTER, NativeSpan.INNER  # member access is slow before Python 3.12
_THEIRS = (_INNER, NativeSpan.BESIDE)


class Reporter:
    """Tells OpenTelemetry about calls. Every method may fail; who calls them holds the shield."""

    def __init__(self, providers: Providers, shield: Shield, fingerprint: Callable[[str], str]) -> None:
        self._providers = providers
        self.shield = shield
        self._fingerprint = fingerprint
        self.outlets: Callable[[], Outlets] = providers.outlets
        """Tracer, instruments and events of now."""

    def start(self, pending: PendingCall) -> Span:
        """The span of this call: the framework's own where that is open, else one that is started here.

        One that records nothing where instrumentation is suppressed.
        """
        self._providers.remind()
        context = otel_context.get_current()
        if context.get(_SUPPRESSED) or context.get(_SUPPRESSED_BY_OTHERS):
            pending.context = context
            return INVALID_SPAN
        if pending.native_span is _OUTER and trace.get_current_span().is_recording():
            span = trace.get_current_span()
            pending.borrowed = True
            span.set_attributes(self._known_at_start(pending))
            pending.context = context
            return span
        span = pending.outlets.tracer.start_span(
            f"{span_word(pending)} {pending.name}",
            context=otel_context.set_value(PENDING, pending, context),
            attributes=self._known_at_start(pending),
            record_exception=False,
            set_status_on_exception=False,
        )
        pending.context = trace.set_span_in_context(span, context)
        return span

    def _known_at_start(self, pending: PendingCall) -> dict[str, Any]:
        call, scope = pending.call, pending.scope
        attributes: dict[str, Any] = {
            semconv.TOOL_NAME: pending.name,
            semconv.TOOL_TYPE: "function",
            semconv.TURN_ID: scope.turn.id,
            semconv.TURN_SOURCE: scope.turn.source,
        }
        if pending.native_span not in _THEIRS:
            attributes[semconv.OPERATION_NAME] = semconv.OPERATION_EXECUTE_TOOL
        if call.call_id is not None:
            attributes[semconv.TOOL_CALL_ID] = call.call_id
        if scope.agent_name is not None:
            attributes[semconv.AGENT_NAME] = scope.agent_name
        if scope.conversation_id is not None:
            shown = self._providers.settings.conversation_id
            if shown != "off":
                raw = scope.conversation_id
                attributes[semconv.CONVERSATION_ID] = raw if shown == "raw" else self._fingerprint(raw)
        return attributes

    def describe(self, span: Span, pending: PendingCall, decision: Decision) -> None:
        """Write what the guard knows of the call on its span, and the event if it saw a loop."""
        record: Record | None = decision.record
        if record is not None and span.is_recording():
            span.set_attributes(self._known_when_judged(pending, record))
            if record.tool != pending.call.tool:
                span.set_attribute(semconv.TOOL_NAME, pending.name)
                if pending.native_span is not _OUTER:
                    span.update_name(f"{span_word(pending)} {pending.name}")
            if pending.native_span is _INNER and not decision.runs:
                # The framework's own span will not open: then this one is the call's.
                span.update_name(f"{semconv.SPAN_EXECUTE_TOOL} {pending.name}")
                span.set_attribute(semconv.OPERATION_NAME, semconv.OPERATION_EXECUTE_TOOL)
        trip, meters = decision.trip, pending.outlets.meters
        if trip is not None:
            self._trip(span, pending, trip, _with_span(span, pending))
        if trip is not None or meters.checks():
            meters.check(pending.seconds, _with_span(span, pending))

    def _known_when_judged(self, pending: PendingCall, record: Record) -> dict[str, Any]:
        attributes = {
            semconv.TOOL_KIND: record.kind._value_,
            semconv.CALL_INDEX: record.index,
            semconv.ARGUMENTS_HASH: hash_text(record.arguments),
        }
        call = pending.call
        if call.known_tools is not None:
            attributes[semconv.TOOL_REGISTERED] = call.tool in call.known_tools
        if pending.name == semconv.UNKNOWN_TOOL:
            attributes[semconv.TOOL_NAME_HASH] = self._fingerprint(call.tool)
        return attributes

    def _trip(self, span: Span, pending: PendingCall, trip: Trip, context: Context) -> None:
        if pending.trip:
            return
        pending.trip = True
        current_scope = pending.outlets
        if span.is_recording():
            span.set_attributes(tripped_attributes(trip))
        current_scope.events.emit(trip, pending.name, span, context)
        current_scope.meters.trip(trip, pending.name, context)
        if trip.action >= Action.BLOCK:
            decision = pending.decision
            current_scope.events.warn(trip, pending.name, decision.record if decision is not None else None)
        elif not pending.scope.turn.enforced and trip.verdict >= Action.BLOCK:
            current_scope.events.only_watched(trip, pending.name)

    def finish(self, span: Span, pending: PendingCall, outcome: str, result: Outcome | None, ended: Decision) -> None:
        """Write how the call ended on its span, and count it. The span is ended by who started it."""
        context, meters = _with_span(span, pending), pending.outlets.meters
        if span.is_recording():
            record = pending.decision.record if pending.decision is not None else None
            failed = _failed(record, outcome)
            span.set_attributes(_known_at_end(record, outcome, result, failed=failed))
            if failed:
                # No description: it would be the exception's text, and that quotes arguments.
                span.set_status(_FAILED)
        if ended.trip is not None:
            self._trip(span, pending, ended.trip, context)
        for trip in ended.recovered:
            meters.recovery(trip, context)
        meters.tool_call(pending.name, outcome, context)

    def turn_over(self, calls: int) -> None:
        """Count a turn that is over."""
        with self.shield("turn.end"):
            self._providers.outlets().meters.turn(calls)


def _with_span(span: Span, pending: PendingCall) -> Context:
    """The context of the call's span; in ``on_start`` of a processor the span is there before its context is."""
    return pending.context or trace.set_span_in_context(span, otel_context.get_current())


def span_word(pending: PendingCall) -> str:
    """The first word of the span's name."""
    return semconv.SPAN_LOOPGUARD if pending.native_span in _THEIRS else semconv.SPAN_EXECUTE_TOOL


def _failed(record: Record | None, outcome: str) -> bool:
    """Whether the tool itself failed, be its error nudged or not. A trip is no error of the tool."""
    return outcome == "failed" or (outcome == "nudged" and record is not None and bool(record.error))


def _known_at_end(record: Record | None, outcome: str, result: Outcome | None, *, failed: bool) -> dict[str, Any]:
    attributes: dict[str, Any] = {semconv.OUTCOME: outcome}
    if result is None or record is None:
        return attributes
    if record.result is not None:
        attributes[semconv.ERROR_HASH if record.error else semconv.RESULT_HASH] = hash_text(record.result)
        if record.error:
            attributes[semconv.ERROR_TRANSIENT] = bool(record.transient)
    if record.sameness is not None:
        attributes[semconv.RESULT_SAMENESS] = record.sameness._value_
    if record.pending:
        attributes[semconv.RESULT_PENDING] = True
    if failed:
        error = result.error
        attributes[semconv.ERROR_TYPE] = type(error).__qualname__ if isinstance(error, BaseException) else "tool_error"
    return attributes
