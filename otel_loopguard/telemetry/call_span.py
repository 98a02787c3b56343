"""One tool call and its span: decide once, start the span, describe the call on it, finish it.

Only hashes and names are written, never a value.
"""

from __future__ import annotations

import enum
from time import perf_counter, time_ns
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, Context, create_key
from opentelemetry.trace import INVALID_SPAN, Status, StatusCode

from otel_loopguard import semconv
from otel_loopguard.engine.names import is_plain_name
from otel_loopguard.engine.words import Action, Decision, ToolCall, hash_text
from otel_loopguard.telemetry.events import tripped_attributes
from otel_loopguard.telemetry.meters import shown_model

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from otel_loopguard.engine.words import Outcome, Record, Trip, Usage
    from otel_loopguard.telemetry.providers import Providers
    from otel_loopguard.turns.scope import Scope

CALL_SPAN: Final = create_key("loopguard-call-span")
"""The span processor finds the call under this key, in the context that the span was started with."""

_SUPPRESSED = _SUPPRESS_INSTRUMENTATION_KEY
_SUPPRESSED_BY_OTHERS = "suppress_instrumentation"
_RUN_IT = Decision()
_ABORTED = Decision(Action.ABORT)
_NUDGE = Action.NUDGE  # access to a member is slow before Python 3.12
_FAILED = Status(StatusCode.ERROR)
_IDENTITY = (
    semconv.TURN_ID,
    semconv.TURN_SOURCE,
    semconv.CONVERSATION_ID,
    semconv.AGENT_NAME,
    semconv.TOOL_CALL_ID,
)


def shown_name(call: ToolCall) -> str:
    """Return the tool's name for spans and logs. A name that is not registered is model output, and is not shown.

    If the registered tools are not known, a name is shown if it has the form of one. Made-up names that carry a
    payload are longer, or have blanks in them.
    """
    if call.known_tools is None:
        return call.tool if is_plain_name(call.tool) else semconv.UNKNOWN_TOOL
    return call.tool if call.tool in call.known_tools else semconv.UNKNOWN_TOOL


class NativeSpan(enum.Enum):
    """The place of a framework's own ``execute_tool`` span of a call, seen from ours. One call has one such span."""

    NONE = enum.auto()
    """There is none: ours is the call's span."""
    OUTER = enum.auto()
    """It is open around our code, and is used instead of a span of our package."""
    INNER = enum.auto()
    """It opens inside ours if the tool runs. If the call is refused, ours is the call's span."""
    BESIDE = enum.auto()
    """It exists in any case, also if the call is refused."""


_NONE, _OUTER, _INNER = (
    NativeSpan.NONE,
    NativeSpan.OUTER,
    NativeSpan.INNER,
)  # access to a member is slow before Python 3.12
_NOT_OURS = (_INNER, NativeSpan.BESIDE)


class CallSpan:
    """One call between its executor's start and its end.

    The span processor calls ``decide`` in ``on_start``. ``GuardedCall`` calls it if the processor did not: there may be
    no processor, or two, or the span was sampled out. The guard decides once in each case, and the decision is kept.
    After a fault of this package the decision is to run the call.
    """

    # The state that a call begins with is the class's: nothing is copied for what most calls never need.
    span: Span = INVALID_SPAN
    context: Context | None = None
    """The context that the tool runs in, with the call's span; None if it is the one around the call."""
    around: Context | None = None
    """The context around the call."""
    decision = _RUN_IT
    described = False
    """True if the decision is reported, and written on the span if there is a trip."""
    finished = False
    end_time: int | None = None
    """The end of the span, if that is not now."""
    usage: Usage | None = None
    """The tokens of the model request that wrote this call, if it is the first one that the request wrote."""
    _decided = False
    _unwritten: Record | None = None
    """The record of a call without a trip: its attributes are written with those of the end."""
    _uses_native_span = False
    """True if ``span`` is the framework's own, which ends it."""
    _seconds = 0.0
    """The time that judging the call took."""
    _began = 0
    """The start of our span."""
    _start_time: int | None = None
    """The start of a call that has run already."""
    _is_measured = False
    """The ``execute_tool`` span of the call is ours, and has its duration."""
    _trip_reported = False

    def __init__(self, providers: Providers, call: ToolCall, scope: Scope, native_span: NativeSpan) -> None:
        tool, known = call.tool, call.known_tools
        self._registered = registered = None if known is None else tool in known
        self.name = tool if registered else shown_name(call)
        self.call = call
        self.scope = scope
        self._providers = providers
        self._outlets = providers.outlets()
        self._native_span = native_span
        run_state = scope.run_state
        if run_state is not None and run_state.abort_error is not None:
            # The run was aborted already: no further call of it is judged.
            self._decided, self.decision = True, _ABORTED

    def start(self) -> None:
        """Start the call's span, or take the framework's own if that is open. May fail: the caller holds the shield.

        There is no span where instrumentation is suppressed.
        """
        if not self._providers.first_call_seen:
            self._providers.see_first_call()
        self.around = context = otel_context.get_current()
        run_state = self.scope.run_state
        if run_state is not None and run_state.span_context is not None:
            context = run_state.span_context if trace.get_current_span(context) is INVALID_SPAN else context
        if context.get(_SUPPRESSED) or context.get(_SUPPRESSED_BY_OTHERS):
            self.context = context
            return
        if self._native_span is _OUTER:
            span = trace.get_current_span()
            if span.is_recording():
                self.span, self._uses_native_span = span, True
                span.set_attributes(self._attributes_at_start())
                return
        if self._start_time is None:
            self._began = time_ns()
            self._is_measured = self._native_span is _NONE
        else:  # of a call that was read in a model request, it is not known when its tool ran
            self._began = self._start_time
        word = semconv.SPAN_LOOPGUARD if self._native_span in _NOT_OURS else semconv.SPAN_EXECUTE_TOOL
        self.span = span = self._outlets.tracer.start_span(
            f"{word} {self.name}",
            context=Context({**context, CALL_SPAN: self}),
            attributes=self._attributes_at_start(),
            start_time=self._began,
            record_exception=False,
            set_status_on_exception=False,
        )
        self.context = trace.set_span_in_context(span, context)

    def start_observed(self, decision: Decision, seconds: float, start_time: int) -> None:
        """Start the span of a call that has run already, since this time in nanoseconds, and is judged."""
        self._decided, self.decision, self._seconds = True, decision, seconds
        self._start_time = start_time
        self.start()
        self.span.set_attributes({semconv.HAS_RUN: True})
        self.decide(self.span)

    def _attributes_at_start(self) -> dict[str, Any]:
        call, scope = self.call, self.scope
        attributes: dict[str, Any] = {
            semconv.TOOL_NAME: self.name,
            semconv.TOOL_TYPE: "function",
            semconv.TURN_ID: scope.turn.id,
            semconv.TURN_SOURCE: scope.turn.source,
        }
        if self._native_span not in _NOT_OURS:
            attributes[semconv.OPERATION_NAME] = semconv.OPERATION_EXECUTE_TOOL
        if scope.run_state is not None and scope.run_state.own_trace:
            attributes[semconv.OWN_TRACE] = True
        if call.call_id is not None:
            attributes[semconv.TOOL_CALL_ID] = call.call_id
        if scope.agent_name is not None:
            attributes[semconv.AGENT_NAME] = scope.agent_name
        if scope.conversation_id is not None:
            attributes |= self._providers.conversation_attributes(scope.conversation_id)
        return attributes

    # --- the decision --------------------------------------------------------------------------------------------

    def decide(self, span: Span) -> Decision:
        """Ask the guard about the call, and describe the call on its span; both once."""
        if not self._decided:
            started = perf_counter()
            self._decided = True  # also after a fault
            try:
                self.decision = self.scope.turn.begin(self.call)
            except Exception as error:  # noqa: BLE001 - see Shield.take
                self._providers.shield.take("guard.begin", error)
            self._seconds = perf_counter() - started
        if not self.described:
            self.described = True
            try:
                self._describe(span)
            except Exception as error:  # noqa: BLE001 - see Shield.take
                self._providers.shield.take("span.start", error)
        return self.decision

    async def decide_async(self) -> None:
        """Ask the guard ahead of ``decide``, because ``Policy.on_trip`` may have to be awaited."""
        if not self._decided:
            started = perf_counter()
            self._decided = True
            with self._providers.shield("guard.begin"):
                self.decision = await self.scope.turn.abegin(self.call)
            self._seconds = perf_counter() - started

    def _describe(self, span: Span) -> None:
        """Report what the guard knows of the call: on its span and by the event if there is a trip.

        Of a call without a trip it is written with the end of the call: the SDK takes its lock for each write.
        """
        decision, meters = self.decision, self._outlets.meters
        record: Record | None = decision.record
        trip: Trip | None = decision.trip
        if record is not None:
            behind_gateway = record.tool != self.call.tool
            if behind_gateway:
                # The call is judged and labelled as the one behind the gateway, where no registry is known.
                self.name = shown_name(ToolCall(record.tool))
            if span.is_recording():
                usage_of = self._providers.usage_of
                if usage_of is not None and self.usage is None and self.call.call_id is not None:
                    self.usage = usage_of(self.scope.turn.id, self.call.call_id)
                if trip is None and not behind_gateway:
                    self._unwritten = record
                else:
                    span.set_attributes(self._attributes_of_record(record))
                    if behind_gateway or (self._native_span is _INNER and not decision.runs):
                        self._rename(span, refused=not decision.runs)
        if trip is not None:
            self._report(trip, span)
        elif record is not None and record.capped is not None:  # not due to be reported again
            self._log(record.capped)
        if trip is not None or meters.measures_this_check():
            meters.check(self._seconds, self._context_with(span))

    def _attributes_of_record(self, record: Record) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            semconv.TOOL_KIND: record.kind._value_,
            semconv.CALL_INDEX: record.index,
            semconv.ARGUMENTS_HASH: hash_text(record.arguments),
        }
        if record.written is not None:
            attributes[semconv.STEP] = record.written
        if self._registered is not None:
            attributes[semconv.TOOL_REGISTERED] = self._registered
        if self.name == semconv.UNKNOWN_TOOL:
            attributes[semconv.TOOL_NAME_HASH] = self._providers.fingerprint(self.call.tool)
        if self.usage is not None:
            _add_usage(attributes, self.usage)
        return attributes

    def _rename(self, span: Span, *, refused: bool) -> None:
        """Rename the span after a decision: for the tool behind a gateway, or for a native span that will not open."""
        span.set_attribute(semconv.TOOL_NAME, self.name)
        word = semconv.SPAN_LOOPGUARD if self._native_span in _NOT_OURS else semconv.SPAN_EXECUTE_TOOL
        if refused and self._native_span is _INNER:
            word, self._is_measured = semconv.SPAN_EXECUTE_TOOL, True
            span.set_attribute(semconv.OPERATION_NAME, semconv.OPERATION_EXECUTE_TOOL)
        if self._native_span is not _OUTER:
            span.update_name(f"{word} {self.name}")

    def _report(self, trip: Trip, span: Span) -> None:
        """Report a trip: at most one a call."""
        if self._trip_reported:
            return
        self._trip_reported = True
        events, context = self._providers.events, self._context_with(span)
        first = self.scope.turn.reach(trip)
        if span.is_recording():
            span.set_attributes(tripped_attributes(trip))
        events.emit(trip, self.name, first, span, context, identity=self._identity())
        self._outlets.meters.trip(trip, self.name, first, context)
        self._log(trip)

    def _log(self, trip: Trip) -> None:
        has_run = self._start_time is not None
        self._providers.events.log(trip, self.name, self.decision.record, self.scope.turn, has_run=has_run)

    def _identity(self) -> dict[str, Any]:
        """Return the attributes of the span that name the call and its turn."""
        attributes, record = self._attributes_at_start(), self.decision.record
        identity = {key: attributes[key] for key in _IDENTITY if key in attributes}
        if record is not None:
            identity[semconv.CALL_INDEX] = record.index
            identity[semconv.ARGUMENTS_HASH] = record.arguments_hash
        return identity

    def _context_with(self, span: Span) -> Context:
        """The context of the call's span. In ``on_start`` of a processor there is the span, and not yet its context."""
        return self.context or trace.set_span_in_context(span, otel_context.get_current())

    # --- the end -------------------------------------------------------------------------------------------------

    def finish(self, ending: str, outcome: Outcome | None, ended: Decision) -> None:
        """Write how the call ended on its span, count it, and end the span unless it is the framework's."""
        self.finished = True
        providers, span = self._providers, self.span
        providers.summary.calls += 1
        if ending != "executed":  # an everyday call has no frame to spare
            providers.summary.count_ending(ending)
        try:
            if providers.executed is not None and self._start_time is None:
                providers.executed(self.scope.turn, self.call, self.decision)
            try:
                error_type = None if ending == "executed" else _error_type(ending, outcome, self.decision.record)
                if span.is_recording():
                    self._describe_end(span, ending, error_type, outcome, ended)
                self._count(span, ending, error_type, ended)
            finally:
                if not self._uses_native_span:
                    span.end(self.end_time)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            providers.shield.take("span.end", error)

    def _describe_end(
        self, span: Span, ending: str, error_type: str | None, outcome: Outcome | None, ended: Decision
    ) -> None:
        """Write how the call ended on its span, and what the guard knows of a call without a trip."""
        attributes = {} if self._unwritten is None else self._attributes_of_record(self._unwritten)
        attributes[semconv.OUTCOME] = ending
        record: Record | None = self.decision.record
        if outcome is not None and record is not None and record.result is not None:  # it has ended
            _add_findings(attributes, record, record.result)
        if error_type is not None:
            attributes[semconv.ERROR_TYPE] = error_type
        if ended.action is _NUDGE and ending != "nudged":
            attributes[semconv.UNDELIVERED] = True
        span.set_attributes(attributes)
        if error_type is not None and ending not in semconv.REFUSED_OUTCOMES:
            # No description: it would be the exception's text, and that quotes arguments.
            span.set_status(_FAILED)

    def _count(self, span: Span, ending: str, error_type: str | None, ended: Decision) -> None:
        """Count the call, the trip of its outcome, and the trips that it ended."""
        if ended.trip is not None:
            self._report(ended.trip, span)
        context, meters = self.context or self._context_with(span), self._outlets.meters
        for trip in ended.recovered:
            meters.recovery(trip, context)
        meters.tool_call(self.name, ending, context)
        if self._is_measured and semconv.OPERATION_EXECUTE_TOOL not in self._providers.unmeasured:
            self.end_time = end_time = self.end_time or time_ns()
            run = (end_time - self._began) / 1e9, self.name, self.scope.agent_name, error_type, span.get_span_context()
            meters.genai.tool_ran(run)


def _error_type(ending: str, outcome: Outcome | None, record: Record | None) -> str | None:
    if ending in semconv.REFUSED_OUTCOMES:
        return semconv.ERROR_REFUSED
    # A trip is no error of the tool. A tool that failed has failed also if its error carries a nudge.
    failed = ending == "failed" or (ending == "nudged" and record is not None and bool(record.error))
    if not failed or outcome is None:
        return None
    error = outcome.error
    return type(error).__qualname__ if isinstance(error, BaseException) else "tool_error"


def _add_findings(attributes: dict[str, Any], record: Record, result: int) -> None:
    """Add all that ``replay`` needs to decide as the guard did. Most calls have none of the flags."""
    attributes[semconv.ERROR_HASH if record.error else semconv.RESULT_HASH] = hash_text(result)
    if record.sameness is not None:
        attributes[semconv.RESULT_SAMENESS] = record.sameness._value_
    if record.error:
        attributes[semconv.ERROR_TRANSIENT] = bool(record.transient)
    elif record.transient:
        attributes[semconv.RESULT_TRANSIENT] = True
    if record.pending:
        attributes[semconv.RESULT_PENDING] = True
    if record.brief and not record.error:
        attributes[semconv.RESULT_BRIEF] = True
    if not record.news:
        attributes[semconv.NO_NEWS] = True
    if record.row > 1:
        attributes[semconv.EQUAL_IN_ROW] = record.row
    if record.turns_without_news is not None:
        attributes[semconv.TURNS_WITHOUT_NEWS] = record.turns_without_news


def _add_usage(attributes: dict[str, Any], usage: Usage) -> None:
    """Add the tokens of a model request, so that ``replay`` knows the cost of a loop's steps."""
    if not usage.has_tokens:
        return
    attributes[semconv.MODEL_NAME] = shown_model(usage.model)
    if usage.input_tokens is not None:
        attributes[semconv.MODEL_INPUT_TOKENS] = usage.input_tokens
    if usage.cached_tokens:
        attributes[semconv.MODEL_CACHED_TOKENS] = usage.cached_tokens
    if usage.output_tokens is not None:
        attributes[semconv.MODEL_OUTPUT_TOKENS] = usage.output_tokens
