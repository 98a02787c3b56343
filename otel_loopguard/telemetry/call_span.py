"""The span of a tool call: start it, describe the call on it, end it. This file writes, and never decides.

Only hashes and names are written, never a value.
"""

from __future__ import annotations

import enum
from contextvars import Token
from time import time_ns
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, Context
from opentelemetry.trace import INVALID_SPAN, NoOpTracer, Status, StatusCode

from otel_loopguard import semconv
from otel_loopguard.engine.quoting import is_plain_name
from otel_loopguard.engine.values.emptiness import Emptiness
from otel_loopguard.engine.vocabulary import Action, Decision, First, ToolCall, hash_text
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.telemetry.loop_event import tripped_attributes
from otel_loopguard.telemetry.meters import shown_model
from otel_loopguard.turns.scope import CALL
from otel_loopguard.turns.tree_over_processes import naming_tree

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from otel_loopguard.engine.vocabulary import Outcome, Record, Trip, Usage
    from otel_loopguard.telemetry.providers import Instruments, Providers
    from otel_loopguard.turns.scope import Scope

_SUPPRESSED = _SUPPRESS_INSTRUMENTATION_KEY
_SUPPRESSED_BY_OTHERS = "suppress_instrumentation"
_UNDECIDED = Decision()
_FAILED = Status(StatusCode.ERROR)
_IDENTITY = (
    semconv.TURN_ID,
    semconv.TURN_SOURCE,
    semconv.CONVERSATION_ID,
    semconv.AGENT_NAME,
    semconv.TOOL_CALL_ID,
)


def printable_name(call: ToolCall) -> str:
    """Return the tool's name as spans and logs may show it, or the name for unknown tools.

    A name that is not registered is the model's own text, and is not shown. If the registered tools are not known, a
    name is shown if it has the form of one: a made-up name that hides data is longer, or has blanks.
    """
    if call.known_tools is None:
        return call.tool if is_plain_name(call.tool) else semconv.UNKNOWN_TOOL
    return call.tool if call.tool in call.known_tools else semconv.UNKNOWN_TOOL


class NativeSpan(enum.Enum):
    """Where the framework's own ``execute_tool`` span of a call is, seen from our span of the call."""

    NONE = enum.auto()
    """Nowhere: our span is the call's ``execute_tool`` span."""
    OUTER = enum.auto()
    """Open around our code: it is used in place of a span of ours."""
    INNER = enum.auto()
    """It opens inside our span if the tool runs. If the call is refused, our span becomes the ``execute_tool`` span."""
    BESIDE = enum.auto()
    """Elsewhere, in any case: also if the call is refused."""


def if_recorded(tracer: Any, place: NativeSpan) -> NativeSpan:
    """Return the place of the framework's span, or ``NONE`` if its tracer makes no spans.

    Then our span is the only one of the call, and has to be its ``execute_tool`` span. A tracer from before the program
    has set its provider is a proxy, which starts none until then.
    """
    real = getattr(tracer, "_tracer", tracer)
    return NativeSpan.NONE if real is None or isinstance(real, NoOpTracer) else place


_NOT_OURS = (NativeSpan.INNER, NativeSpan.BESIDE)


class InContext:
    """A span that code runs in: ``enter`` makes it the current span, ``leave`` restores the one before it."""

    context: Context | None = None
    """The context with the span; None if there is no such span, and nothing is entered."""
    around: Context | None = None
    """The context that the span was started in; None before."""
    _token: Any = None

    def enter(self) -> None:
        """Make the span the current one, unless it was not left: then the framework's own span in it still is."""
        if self.context is not None and self._token is None:
            self._token = otel_context.attach(self.context)

    def leave(self, *, thrown_away: bool = False) -> None:
        """Restore the context from before ``enter``.

        ``thrown_away``: do nothing where another span is current. A generator that is freed is closed in any context,
        and one that makes spans keeps its own current when it yields.
        This is not ``otel_context.detach``, because that swallows the exceptions of signal handlers.
        """
        if self._token is None or (thrown_away and otel_context.get_current() is not self.context):
            return
        token, self._token = self._token, None
        if type(token) is Token:
            try:
                token.var.reset(token)
            except (ValueError, RuntimeError) as error:
                pass_interrupt(error)
            else:
                return
        otel_context.detach(token)  # which logs that this is another context

    def restore(self) -> None:
        """Restore the context around the span, if an exception left the span the current one."""
        if self.around is not None and otel_context.get_current() is self.context:
            otel_context.attach(self.around)


class CalledBack(Protocol):
    """A call as the span processor sees it: the processor calls it back when its span starts."""

    call: ToolCall

    def decide(self, span: Span) -> object:
        """Judge the call, unless it is judged already, and describe it on its span: see ``CallSpan.describe``."""


class CallSpan(InContext):
    """The span of one call, from its begin to its end.

    The span processor calls the call back in ``on_start``, to be judged and described. If there is no processor, or the
    span is sampled out, the call does so by itself.
    """

    _outlets: Instruments

    def __init__(
        self, providers: Providers, call: ToolCall, scope: Scope, native_span: NativeSpan, *, of_mcp: bool = False
    ) -> None:
        self.call = call
        self.scope = scope
        self._providers = providers
        self._native_span = native_span
        self._tool_type = semconv.TYPE_EXTENSION if of_mcp else semconv.TYPE_FUNCTION
        self.name = semconv.UNKNOWN_TOOL
        """The tool's name as it may be shown."""
        self.otel_span: Span = INVALID_SPAN
        self.described = False
        """True once ``describe`` has reported the decision."""
        self.end_time: int | None = None
        """The end of the span, in nanoseconds since 1970; None: when ``finish`` is called."""
        self.is_nudged = False
        """True if a sentence of the guard was put beside the result."""
        self.usage: Usage | None = None
        """The tokens of the model request that wrote this call, if it is the first call of the response; else None."""
        self._decision = _UNDECIDED
        self._registered: bool | None = None
        self._unwritten: Record | None = None
        """The record of a call without a trip, until ``finish`` writes its attributes."""
        self._uses_native_span = False
        """True if ``otel_span`` is the framework's own span, which the framework ends."""
        self._began = 0
        """The start of our span, in nanoseconds since 1970."""
        self._has_run = False
        """True for a call that has run: it was read in a model request."""
        self._is_measured = False
        """True if our span is the ``execute_tool`` span of the call, so that we record its duration."""
        self._trip_reported = False

    def start(self, call: CalledBack, start_time: int | None = None) -> None:
        """Start the span, or use the framework's own open one. May raise: the caller has the shield.

        ``start_time`` (nanoseconds since 1970) is given for a call that has run. No span is started where
        instrumentation is suppressed.
        """
        self._has_run = start_time is not None
        providers, tool, known = self._providers, self.call.tool, self.call.known_tools
        self._registered = registered = None if known is None else tool in known
        self.name = tool if registered else printable_name(self.call)
        self._outlets = outlets = providers.outlets()
        if not providers.first_call_seen:
            providers.see_first_call()
        self.around = context = otel_context.get_current()
        run_state = self.scope.run_state
        if run_state is not None and run_state.span_context is not None:
            context = run_state.span_context if trace.get_current_span(context) is INVALID_SPAN else context
        turn_span = self.scope.turn.span
        if turn_span is not None and turn_span.context is not None:
            if context is turn_span.around:
                context = turn_span.context
            elif trace.get_current_span(context) is INVALID_SPAN:
                context = trace.set_span_in_context(trace.get_current_span(turn_span.context), context)
        if context.get(_SUPPRESSED) or context.get(_SUPPRESSED_BY_OTHERS):
            self.context = context
            return
        if self._native_span is NativeSpan.OUTER:
            span = trace.get_current_span()
            if span.is_recording():
                self.otel_span, self._uses_native_span = span, True
                span.set_attributes(self._attributes_at_start())
                self.context = naming_tree(self.scope.turn, None)
                return
        if start_time is None:
            self._began = time_ns()
            self._is_measured = self._native_span is NativeSpan.NONE
        else:  # it is not known when its tool ran
            self._began = start_time
        word = semconv.SPAN_LOOPGUARD if self._native_span in _NOT_OURS else semconv.SPAN_EXECUTE_TOOL
        self.otel_span = span = outlets.tracer.start_span(
            f"{word} {self.name}",
            context=Context({**context, CALL: call}),
            attributes=self._attributes_at_start(),
            start_time=self._began,
            record_exception=False,
            set_status_on_exception=False,
        )
        self.context = context = trace.set_span_in_context(span, context)
        turn = self.scope.turn
        if turn.shared_tree is not None or turn.parent is not None:
            self.context = naming_tree(turn, context)

    def _attributes_at_start(self) -> dict[str, Any]:
        call, scope = self.call, self.scope
        attributes: dict[str, Any] = {
            semconv.TOOL_NAME: self.name,
            semconv.TOOL_TYPE: self._tool_type,
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
        if self._has_run:
            attributes[semconv.HAS_RUN] = True
        return attributes

    # --- the decision --------------------------------------------------------------------------------------------

    def describe(self, span: Span, decision: Decision, seconds: float) -> None:
        """Report the decision about the call, once: its attributes on the span, and the event of a trip. May raise.

        The attributes of a call without a trip are written by ``finish``, because the SDK takes a lock for each write.
        ``seconds`` is the time that judging the call took.
        """
        if self.described:
            return
        self.described, self._decision = True, decision
        meters = self._outlets.meters
        record: Record | None = decision.record
        trip: Trip | None = decision.trip
        if record is not None:
            is_dispatched = record.tool != self.call.tool
            if is_dispatched:
                # The call is judged and labelled as the one behind the dispatcher, where no registry is known.
                self.name = printable_name(ToolCall(record.tool))
            if span.is_recording():
                usage_of = self._providers.usage_of
                if usage_of is not None and self.usage is None and self.call.call_id is not None:
                    self.usage = usage_of(self.scope.turn.id, self.call.call_id)
                if trip is None and not is_dispatched:
                    self._unwritten = record
                else:
                    span.set_attributes(self._attributes_of_record(record))
                    if is_dispatched or (self._native_span is NativeSpan.INNER and not decision.runs):
                        self._rename(span, refused=not decision.runs)
        if trip is not None:
            self._report(trip, span)
        if trip is not None or meters.measures_this_check():
            meters.check(seconds, self._context_with(span))

    def _attributes_of_record(self, record: Record) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            semconv.TOOL_KIND: record.kind._value_,
            semconv.CALL_INDEX: record.index,
            semconv.ARGUMENTS_HASH: hash_text(record.arguments),
        }
        if record.written is not None:
            attributes[semconv.STEP] = record.written
        if record.thinking:
            attributes[semconv.THOUGHT] = record.thinking
        if self._registered is not None:
            attributes[semconv.TOOL_REGISTERED] = self._registered
        if self.name == semconv.UNKNOWN_TOOL:
            attributes[semconv.TOOL_NAME_HASH] = self._providers.fingerprint(self.call.tool)
        if self.usage is not None:
            _add_usage(attributes, self.usage)
        return attributes

    def _rename(self, span: Span, *, refused: bool) -> None:
        """Rename the span after a decision: for the tool of a dispatcher, or because no native span will open."""
        span.set_attribute(semconv.TOOL_NAME, self.name)
        word = semconv.SPAN_LOOPGUARD if self._native_span in _NOT_OURS else semconv.SPAN_EXECUTE_TOOL
        if refused and self._native_span is NativeSpan.INNER:
            word, self._is_measured = semconv.SPAN_EXECUTE_TOOL, True
            span.set_attribute(semconv.OPERATION_NAME, semconv.OPERATION_EXECUTE_TOOL)
        if self._native_span is not NativeSpan.OUTER:
            span.update_name(f"{word} {self.name}")

    def _report(self, trip: Trip, span: Span, *, is_due: bool = True) -> None:
        """Report a trip, but only the first one of the call: on the span, in the metrics, in the log.

        If it ``is_due`` it is an event, too: each step of a loop is counted, and not each is told.
        """
        if self._trip_reported:
            return
        self._trip_reported = True
        events, context, record = self._providers.events, self._context_with(span), self._decision.record
        first = self.scope.turn.reach(trip) if is_due else First.NO
        if span.is_recording():
            span.set_attributes(tripped_attributes(trip, record))
        if is_due:
            events.emit(trip, self.name, first, span, context, record=record, identity=self._identity())
        turn = self.scope.turn
        self._outlets.meters.trip(turn.known_as, trip, self.name, first, context, is_shared=turn.is_shared)
        self._log(trip, span)

    def _log(self, trip: Trip, span: Span) -> None:
        record, turn = self._decision.record, self.scope.turn
        events, ids = self._providers.events, span.get_span_context()
        events.log(trip, self.name, record, turn, span=ids, call=self.call, has_run=self._has_run)

    def _identity(self) -> dict[str, Any]:
        """Return the attributes that identify the call and its turn."""
        attributes, record = self._attributes_at_start(), self._decision.record
        identity = {key: attributes[key] for key in _IDENTITY if key in attributes}
        if record is not None:
            identity[semconv.CALL_INDEX] = record.index
            identity[semconv.ARGUMENTS_HASH] = record.arguments_hash
        return identity

    def _context_with(self, span: Span) -> Context:
        """Return the context of the call's span. In ``on_start`` the span exists, and its context does not yet."""
        return self.context or trace.set_span_in_context(span, otel_context.get_current())

    # --- the end -------------------------------------------------------------------------------------------------

    def finish(self, ending: str, outcome: Outcome | None, ended: Decision) -> None:
        """Write on the span how the call ended, count the call, and end the span unless it is the framework's own."""
        providers, span, end_time = self._providers, self.otel_span, self.end_time
        providers.summary.calls += 1
        if ending != "executed":  # an everyday call has no frame to spare
            providers.summary.count_ending(ending, is_nudged=self.is_nudged)
        try:
            try:
                error_type = None if ending == "executed" else _error_type(ending, outcome)
                if span.is_recording():
                    self._describe_end(span, ending, error_type, outcome, ended)
                if ended.trip is not None:
                    self._report(ended.trip, span)
                elif self._decision.record is not None and self._decision.record.capped is not None:
                    self._report(self._decision.record.capped, span, is_due=False)
                context, meters = self.context or self._context_with(span), self._outlets.meters
                for trip in ended.recovered:
                    meters.recovery(self.scope.turn.known_as, trip, context)
                meters.tool_call(self.name, ending, context)
                if self._is_measured and semconv.OPERATION_EXECUTE_TOOL not in providers.unmeasured:
                    end_time = end_time or time_ns()
                    seconds, agent = (end_time - self._began) / 1e9, self.scope.agent_name
                    ids = span.get_span_context()
                    meters.genai.tool_ran((seconds, self.name, self._tool_type, agent, error_type, ids))
            finally:
                if not self._uses_native_span:
                    span.end(end_time)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            providers.shield.take("span.end", error)

    def _describe_end(
        self, span: Span, ending: str, error_type: str | None, outcome: Outcome | None, ended: Decision
    ) -> None:
        """Write on the span how the call ended, and the attributes of a call without a trip."""
        attributes = {} if self._unwritten is None else self._attributes_of_record(self._unwritten)
        attributes[semconv.OUTCOME] = ending
        record: Record | None = self._decision.record
        if outcome is not None and record is not None and record.result is not None:  # it has ended
            _add_findings(attributes, record, record.result)
        if error_type is not None:
            attributes[semconv.ERROR_TYPE] = error_type
        if ended.action is Action.NUDGE and not self.is_nudged:
            attributes[semconv.UNDELIVERED] = True
        span.set_attributes(attributes)
        if error_type is not None and ending not in semconv.REFUSED_OUTCOMES:
            # No description: it would be the exception's text, and that quotes arguments.
            span.set_status(_FAILED)


def _error_type(ending: str, outcome: Outcome | None) -> str | None:
    if ending in semconv.REFUSED_OUTCOMES:
        return semconv.ERROR_REFUSED
    if ending != "failed" or outcome is None:  # a trip is no error of the tool
        return None
    error = outcome.error
    return type(error).__qualname__ if isinstance(error, BaseException) else "tool_error"


def _add_findings(attributes: dict[str, Any], record: Record, result: int) -> None:
    """Add what the guard found about the result, from which ``replay`` decides as the guard did."""
    attributes[semconv.ERROR_HASH if record.error else semconv.RESULT_HASH] = hash_text(result)
    if record.sameness is not None:
        attributes[semconv.RESULT_SAMENESS] = record.sameness._value_
    if record.error:
        attributes[semconv.ERROR_TRANSIENT] = bool(record.transient)
    elif record.transient:
        attributes[semconv.RESULT_TRANSIENT] = True
    if record.pending:
        attributes[semconv.RESULT_PENDING] = True
    if record.brief or record.over or record.retry_after or record.empty or record.acted:
        _add_words(attributes, record)
    if not record.news:
        attributes[semconv.NO_NEWS] = True
    if record.equal_in_row > 1:
        attributes[semconv.EQUAL_IN_ROW] = record.equal_in_row
    if record.turns_without_news is not None:
        attributes[semconv.TURNS_WITHOUT_NEWS] = record.turns_without_news


def _add_words(attributes: dict[str, Any], record: Record) -> None:
    """Add what the guard has read in a short result, or in an error."""
    if record.brief and not record.error:
        attributes[semconv.RESULT_BRIEF] = True
    if record.over:
        attributes[semconv.RESULT_OVER] = True
    if record.retry_after:
        attributes[semconv.RETRY_AFTER] = record.retry_after
    if record.empty:
        attributes[semconv.RESULT_EMPTY] = Emptiness(record.empty).name.lower()
    if record.acted:
        attributes[semconv.RESULT_ACTED] = True


def _add_usage(attributes: dict[str, Any], usage: Usage) -> None:
    """Add the tokens of a model request, from which ``replay`` computes what a loop cost."""
    if not usage.has_tokens:
        return
    attributes[semconv.MODEL_NAME] = shown_model(usage.model)
    if usage.input_tokens is not None:
        attributes[semconv.MODEL_INPUT_TOKENS] = usage.input_tokens
    if usage.cached_tokens:
        attributes[semconv.MODEL_CACHED_TOKENS] = usage.cached_tokens
    if usage.output_tokens is not None:
        attributes[semconv.MODEL_OUTPUT_TOKENS] = usage.output_tokens
