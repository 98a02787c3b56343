"""Judge the tool calls that only other instrumentations record, when their spans end. Such calls are never refused.

One call often has several spans: of the framework, of an instrumentation for it, of the protocol below, and ours. It is
counted once: by our own patch if there is one, else by its outermost tool span.

The span of a model request tells the turns around it how long the model thought: thinking is no waiting.
"""

from __future__ import annotations

import itertools
import logging
import weakref
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan

from otel_loopguard import semconv
from otel_loopguard.engine.quoting import clean_name
from otel_loopguard.engine.vocabulary import Action, First
from otel_loopguard.spans.dialects import agent_name, open_tool_name, read, same_tool
from otel_loopguard.spans.model_requests import usage_of_request
from otel_loopguard.spans.open_spans import attributes_of, id_of, view_of
from otel_loopguard.telemetry.call_span import printable_name
from otel_loopguard.telemetry.loop_event import tripped_attributes
from otel_loopguard.telemetry.providers import SPANS_ALONE
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

    from otel_loopguard.engine.vocabulary import Record, ToolCall, Trip
    from otel_loopguard.guard.guard import Guard
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.spans.open_spans import OpenSpans
    from otel_loopguard.telemetry.providers import Providers
    from otel_loopguard.turns.attribution import Attribution

logger = logging.getLogger("otel_loopguard")

MOST_MARKS = 20_000
MOST_CALLS = 1_024
_LAYERS = 4
_MESSAGE = ("invoke_agent", "invoke_workflow")
_MCP_METHOD = "mcp.method.name"
_NO_ARGUMENTS = (
    "The tool spans of %s have no arguments: these calls are counted, but they cannot be judged. Let that "
    "instrumentation record the content of tool calls, or let otel_loopguard patch the framework."
)
_NO_RESULTS = (
    "The tool spans of %s have no results: each result is taken as a new one, so most loops cannot be found. Let that "
    "instrumentation record the content of tool calls, or let otel_loopguard patch the framework."
)


class _ObservedTurn:
    """A turn whose calls are only reported, and the time at which each call last ended."""

    __slots__ = ("_ends", "turn")

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._ends: dict[int, int] = {}

    def overlaps(self, call: int, span: ReadableSpan) -> bool:
        """Return True if the call started before the last equal call ended, as in a batch. ``call`` is its hash."""
        before, end = self._ends.pop(call, 0), span.end_time or 0
        self._ends[call] = max(before, end)
        if len(self._ends) > MOST_CALLS:
            self._ends.pop(next(iter(self._ends)), None)
        return (span.start_time or end) < before


class _Mark:
    """What is known about an open span, for its end and for the spans inside it."""

    __slots__ = ("layer", "names", "observed")

    def __init__(self) -> None:
        self.layer = False
        """True if the span was started inside a call that our own patch guards."""
        self.names: tuple[str, ...] = ()
        """The tools of the calls that were counted inside this span, the latest eight."""
        self.observed: _ObservedTurn | None = None
        """The turn that ends with this span; None if no turn does."""


class SpanWatcher:
    """Judge the tool spans of other instrumentations.

    ``patched`` returns True for a scope whose framework we patch. ``written`` returns True for a call of a reply that
    was read: it is counted when a request brings its result.
    """

    def __init__(
        self,
        open_spans: OpenSpans,
        guard: Guard,
        attribution: Attribution,
        providers: Providers,
        *,
        patched: Callable[[str | None], bool],
        written: Callable[[ToolCall], bool],
    ) -> None:
        self.open_spans = open_spans
        self.guard = guard
        self._attribution = attribution
        self.shield = providers.shield
        self._providers = providers
        self._patched = patched
        self._written = written
        self._observed: weakref.WeakKeyDictionary[Turn, _ObservedTurn] = weakref.WeakKeyDictionary()
        self.marks: dict[int, _Mark] = {}
        self._logged: set[str] = set()

    @property
    def live(self) -> int:
        """The number of turns that are not over."""
        return self.guard.live

    def _mark(self, span: ReadableSpan) -> _Mark:
        if len(self.marks) >= MOST_MARKS:
            self.marks.pop(next(iter(self.marks)), None)
        return self.marks.setdefault(id_of(span), _Mark())

    # --- count once ----------------------------------------------------------------------------------------------

    def mark_layer(self, span: Span) -> None:
        """Mark a span that was started inside a guarded call, so that it is not counted as a call of its own."""
        self._mark(span).layer = True

    def mark_counted(self, span: ReadableSpan, tool: str) -> None:
        """Note on the four spans around this one that its call is counted: they may be spans of the same call."""
        around = self.open_spans.above(span)
        for _ in range(_LAYERS):
            if around is None:
                return
            mark = self._mark(around)
            if tool not in mark.names:
                mark.names = (*mark.names[-7:], tool)
            around = self.open_spans.above(around)

    def _is_layer(self, span: ReadableSpan, tool: str) -> bool:
        """Return True if the call of this span is counted by a span inside it, or by one around it."""
        mark = self.marks.get(id_of(span))
        if mark is not None and (mark.layer or any(same_tool(tool, name) for name in mark.names)):
            return True
        around = itertools.islice(self.open_spans.ancestors(span), _LAYERS)
        return any(same_tool(tool, open_tool_name(one.name, attributes_of(one))) for one in around)

    # --- judge ---------------------------------------------------------------------------------------------------

    def judge(self, span: ReadableSpan) -> None:
        """Judge the tool call of an ended span, if it is not counted yet. Count the time of a model request."""
        seen = read(view_of(span))
        if seen is None:
            self._think(span)
        counted_elsewhere = seen is None or self._patched(_scope_of(span)) or self._is_layer(span, seen.call.tool)
        if seen is None or counted_elsewhere or self._written(seen.call):
            self._note_measured(span)
            return
        self.mark_counted(span, seen.call.tool)
        failed, trip, is_due, record = seen.outcome.error is not None, None, True, None
        observed = self._turn_of(span)
        arguments = self.guard.compiled.fingerprinter.arguments(seen.call.arguments)
        if not observed.overlaps(arguments ^ hash(seen.call.tool), span):
            decision = observed.turn.ran(seen.call, seen.outcome, took=_seconds(span))
            record, trip = decision.record, decision.trip
            if record is not None:
                failed = bool(record.error)
                if trip is None:
                    trip, is_due = record.capped, False
            for ended in decision.recovered:
                self._providers.outlets().meters.recovery(observed.turn.known_as, ended, _context_of(span))
        if not seen.has_arguments:
            # It is part of the history, because it may have changed something. A trip of it would mean nothing.
            trip = None
            self._log_once(_NO_ARGUMENTS, span)
        elif not seen.has_result:
            self._log_once(_NO_RESULTS, span)
        context = _context_of(span)
        name = printable_name(seen.call)
        self._providers.summary.calls += 1
        self._providers.outlets().meters.tool_call(name, "failed" if failed else "executed", context)
        if trip is not None:
            trip = trip._replace(action=Action.OBSERVE)
            first = observed.turn.reach(trip) if is_due else First.NO
            self._providers.outlets().meters.trip(observed.turn.known_as, trip, name, first, context)
            self._providers.events.note_loop(trip, observed.turn.id)
            if is_due:
                identity = self._identity(span, observed.turn, seen.call, record)
                self._report(span, trip, name, first, record=record, identity=identity)

    def _think(self, span: ReadableSpan) -> None:
        """Tell the turns of a model request how long it took, unless it is work of a tool. No turn is made for it."""
        if usage_of_request(attributes_of(span)) is None or garbage_collector.runs_here():
            return
        scope, turns, in_agent = current_scope(), [], False
        if scope is not None:
            if scope.call is not None:
                return
            observed = self._observed.get(scope.turn)
            turns = [scope.turn] if observed is None else [scope.turn, observed.turn]
        for around in self.open_spans.ancestors(span):
            attributes = attributes_of(around)
            if open_tool_name(around.name, attributes) is not None:
                if not in_agent:
                    return
                break
            in_agent = in_agent or agent_name(attributes) is not None
            mark = self.marks.get(id_of(around))
            if mark is not None and mark.observed is not None:
                turns.append(mark.observed.turn)
        for turn in turns:
            turn.thought(_seconds(span))

    def _note_measured(self, span: ReadableSpan) -> None:
        """Record no GenAI metrics of an operation of which another instrumentation has spans: it records them.

        Spans of MCP do not count, because they have another metric; nor do tool spans of a framework that we patch.
        """
        operation = _operation(span)
        is_agent, is_tool = operation == semconv.OPERATION_INVOKE_AGENT, operation == semconv.OPERATION_EXECUTE_TOOL
        is_request = (
            operation in (semconv.OPERATION_CHAT, semconv.OPERATION_GENERATE_CONTENT)
            and _scope_of(span) not in SPANS_ALONE
        )
        of_protocol = _MCP_METHOD in attributes_of(span)
        scope = current_scope()
        if is_agent and scope is not None and scope.turn.span is not None:
            scope.turn.span.drop()
        if is_agent or is_request or (is_tool and not of_protocol and not self._patched(_scope_of(span))):
            self._providers.unmeasured.add(operation)

    def _identity(self, span: ReadableSpan, turn: Turn, call: ToolCall, record: Record | None) -> dict[str, Any]:
        """Return the attributes that identify the call and its turn, from its span and the open spans around it."""
        identity: dict[str, Any] = {
            semconv.TURN_ID: turn.id,
            semconv.TURN_SOURCE: turn.source,
            **self._providers.conversation_attributes(self._nearest(span, semconv.CONVERSATION_ID)),
        }
        if (agent := self._nearest(span, semconv.AGENT_NAME)) is not None:
            identity[semconv.AGENT_NAME] = agent
        if call.call_id is not None:
            identity[semconv.TOOL_CALL_ID] = call.call_id
        if record is not None:
            identity[semconv.CALL_INDEX] = record.index
            identity[semconv.ARGUMENTS_HASH] = record.arguments_hash
        return identity

    def _nearest(self, span: ReadableSpan, name: str) -> str | None:
        """Return this attribute of the span, or of the nearest open span around it that has it; None without one."""
        around = (attributes_of(one).get(name) for one in (span, *self.open_spans.ancestors(span)))
        return next((value for value in around if isinstance(value, str)), None)

    def _report(
        self,
        span: ReadableSpan,
        trip: Trip,
        name: str,
        first: First,
        *,
        record: Record | None,
        identity: Mapping[str, Any],
    ) -> None:
        """Report the trip. Its event is on the nearest open span, or on a new one: the call's own span has ended."""
        outlets, context = self._providers.outlets(), _context_of(span)
        around: Any = next((one for one in self.open_spans.ancestors(span) if one.is_recording()), None)
        marker = around is None and span.context is not None
        if marker:
            around = outlets.tracer.start_span(
                f"{semconv.SPAN_LOOPGUARD} {name}", context=context, attributes={semconv.TOOL_NAME: name}
            )
        around = around or INVALID_SPAN
        if around.is_recording():
            around.set_attributes(tripped_attributes(trip, record))
        self._providers.events.emit(trip, name, first, around, context, record=record, identity=identity)
        if marker:
            around.end()

    def _log_once(self, message: str, span: ReadableSpan) -> None:
        if message not in self._logged:
            self._logged.add(message)
            logger.warning(message, clean_name(_scope_of(span) or "an instrumentation"))

    # --- turns ---------------------------------------------------------------------------------------------------

    def _turn_of(self, span: ReadableSpan) -> _ObservedTurn:
        """Return the turn for this call: beside the guarded turn around it, else of the span of its user message."""
        scope = current_scope()
        message = None if scope is not None else self._message(span)
        if message is None:
            return self._observed_for(self._attribution.find().turn)
        mark = self._mark(message)
        if mark.observed is None:
            source = "agent_span" if _operation(message) in _MESSAGE else "trace"
            turn = self.guard.turn(
                f"seen-{id_of(message):016x}", source=source, enforced=False,
                conversation_id=self._nearest(span, semconv.CONVERSATION_ID),
            )  # fmt: skip
            mark.observed = _ObservedTurn(turn)
        return mark.observed

    def _message(self, span: ReadableSpan) -> Span | None:
        """Return the open span that stands for the user's message; None without one.

        It is the outermost agent's span, else the outermost span of the same instrumentation, else the outermost span.
        Only spans up to the next tool call count: an agent that is used as a tool has a turn of its own.
        """
        agent = same = outermost = None
        for around in self.open_spans.ancestors(span):
            outermost = around
            if _operation(around) in _MESSAGE:
                agent = around
            if _scope_of(around) == _scope_of(span):
                same = around
            if open_tool_name(around.name, attributes_of(around)) is not None:
                break
        return agent or same or outermost

    def _observed_for(self, turn: Turn) -> _ObservedTurn:
        """Return the turn for calls of spans that is kept beside one of the guard's own turns."""
        observed = self._observed.get(turn)
        if observed is None:
            observed = self._observed[turn] = _ObservedTurn(self.guard.turn(source=turn.source, enforced=False))
            observed.turn.current.place = turn.current.place
            self.guard.forget(observed.turn)  # it lives as long as the turn that it is kept for
        return observed

    def close_turn_of(self, span: ReadableSpan) -> None:
        """Close the turn that ends with this span, if there is one."""
        mark = self.marks.pop(id_of(span), None)
        if mark is not None and mark.observed is not None:
            turn = mark.observed.turn
            turn.close()
            self._providers.count_turn(turn.known_as, turn.calls)

    def clear(self) -> None:
        """Forget all spans and turns, as after a fork."""
        self.marks.clear()
        self._observed.clear()


def _operation(span: ReadableSpan) -> Any:
    return attributes_of(span).get(semconv.OPERATION_NAME)


def _scope_of(span: ReadableSpan) -> str | None:
    scope = span.instrumentation_scope
    return None if scope is None else scope.name


def _seconds(span: ReadableSpan) -> float:
    """Return the seconds from the start to the end of a span; 0 if one of them is not known."""
    start, end = span.start_time, span.end_time
    return 0.0 if start is None or end is None else max(0, end - start) / 1e9


def _context_of(span: ReadableSpan) -> Context:
    """Return a context with an ended span, which links counts and logs to its trace."""
    context = span.get_span_context()
    return trace.set_span_in_context(INVALID_SPAN if context is None else NonRecordingSpan(context))
