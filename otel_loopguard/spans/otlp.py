"""Read tool calls and model requests from OTLP JSON lines, as the file exporter of a collector writes them.

Spans of other instrumentations are read by ``dialects``. The guard's own spans have fingerprints in place of values,
and what the guard found when it compared the values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard import semconv
from otel_loopguard.engine.events import Began
from otel_loopguard.engine.values.emptiness import Emptiness
from otel_loopguard.engine.values.results import Findings, OutcomeFacts, outcome_facts
from otel_loopguard.engine.vocabulary import NO_LOOPS, Kind, Sameness, ToolCall
from otel_loopguard.guard.ending import ENDS
from otel_loopguard.spans import dialects
from otel_loopguard.spans.ancestry import SpanAround
from otel_loopguard.spans.dialects import SpanView
from otel_loopguard.spans.model_requests import usage_of_request, usage_on_call
from otel_loopguard.spans.request_messages import messages_of
from otel_loopguard.spans.service_name import NO_SERVICE, Service
from otel_loopguard.spans.turn_ledger import ledger_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.state import State
    from otel_loopguard.engine.tools.contracts import ResolvedCall
    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.engine.values.pending import PendingWords
    from otel_loopguard.engine.vocabulary import Usage
    from otel_loopguard.spans.ancestry import Ancestry
    from otel_loopguard.spans.dialects import SpanCall
    from otel_loopguard.spans.request_messages import RecordedMessage

_SECOND = 1e9
_END_OF_TIME = 1 << 64
_FAILED = (2, "STATUS_CODE_ERROR")
_SERVER = (2, "SPAN_KIND_SERVER")
_KINDS = frozenset(map(str, Kind))
_SAMENESS = {str(one): one for one in Sameness}
_EMPTINESS = {one.name.lower(): one for one in Emptiness}


class ToolSpan(NamedTuple):
    """The span of a tool call, from a file or a message. ``read`` parses its values."""

    turn: str
    """The id of the turn if the span is the guard's own; else the id of the trace."""
    tool: str
    order: tuple[int, int]
    """The index of the call if the span is the guard's own, else 0; then the start time."""
    start: int
    """Nanoseconds since 1970; 0 if it is not recorded."""
    end: int
    """Nanoseconds since 1970; 0 if it is not recorded."""
    own: bool
    """True for the guard's own span."""
    trace: str
    view: SpanView
    span: str = ""
    parent: str = ""
    conversation: str | None = None
    """The id of the conversation that the span itself has."""
    service: Service = NO_SERVICE
    scope: str = ""
    """The name of the instrumentation."""

    @property
    def in_order(self) -> tuple[Any, ...]:
        """The key by which the spans of a turn are sorted. Spans without times stay in the order of their arrival."""
        return (*self.order, self.end, self.span) if self.start else self.order

    @property
    def was_cancelled(self) -> bool:
        """True if the guard recorded that the call was cancelled: it never returned."""
        return self.own and self.view.attributes.get(semconv.OUTCOME) == "cancelled"

    def read(self) -> RecordedCall:
        """Return the call, with the values of the span parsed."""
        return RecordedCall(self, None if self.own else dialects.read(self.view))


class ModelSpan(NamedTuple):
    """The span of a model request, from another instrumentation."""

    trace: str
    start: int
    """Nanoseconds since 1970; 0 if it is not recorded."""
    end: int
    """Nanoseconds since 1970; 0 if it is not recorded."""
    usage: Usage
    span: str
    parent: str
    conversation: str | None = None
    service: Service = NO_SERVICE
    messages: tuple[RecordedMessage, ...] = ()
    """The message list of the request; empty if the span does not have it."""

    @property
    def in_order(self) -> tuple[Any, ...]:
        """The key of its end among the begins of calls (``ToolSpan.in_order``): a call at its end comes after it."""
        return (0, self.end, -self.start, self.span)

    @property
    def seconds(self) -> float:
        """The seconds from its start to its end; 0 if one of them is not known."""
        return max(0, self.end - self.start) / _SECOND if self.start else 0.0


class RecordedCall(NamedTuple):
    """A tool call that was recorded in a span, ready to be judged under any policy."""

    span: ToolSpan
    foreign: SpanCall | None
    """The call as another instrumentation's span has it; None if the span is the guard's own."""

    @property
    def in_order(self) -> tuple[Any, ...]:
        """As of its span."""
        return self.span.in_order

    @property
    def has_arguments(self) -> bool:
        """True if the span has the arguments, or their fingerprint. Else no mode can judge the call."""
        return self.foreign is None or self.foreign.has_arguments

    @property
    def has_result(self) -> bool:
        """True if the span has the result or the error, or the fingerprint of it."""
        return self.foreign is None or self.foreign.has_result

    @property
    def refused(self) -> bool:
        """True if the guard refused the call, so that it did not run."""
        return self.span.view.attributes.get(semconv.OUTCOME) in semconv.REFUSED_OUTCOMES

    @property
    def has_run(self) -> bool:
        """True if the call was read in a model request, with its result: the guard cannot refuse such a call."""
        return self.span.own and self.span.view.attributes.get(semconv.HAS_RUN) is True

    @property
    def request_was_read(self) -> bool:
        """True if the guard read the model request that wrote the call, or that brought its result.

        It knows the tokens of the call's request then, or at least how long the model thought.
        """
        return self.has_run or self.usage is not None or self.thought > 0

    @property
    def refused_in_no_loop(self) -> bool:
        """True if the guard refused the call because the user asked the run to stop, or because a budget was spent."""
        return self.span.view.attributes.get(semconv.MODE) in NO_LOOPS

    @property
    def cancelled(self) -> bool:
        """True if the call never returned, so that it has no result."""
        return self.span.was_cancelled

    @property
    def failed(self) -> bool:
        """True if the span has an error."""
        return self.span.view.failed or semconv.ERROR_HASH in self.span.view.attributes

    @property
    def at(self) -> float | None:
        """The start in seconds since 1970; None if it is not recorded."""
        return self.span.start / _SECOND or None

    @property
    def ended(self) -> float | None:
        """The end in seconds since 1970; None if it is not recorded."""
        return self.span.end / _SECOND or None

    @property
    def step(self) -> object:
        """A value that the calls of one message of the model share; None if the span has none."""
        return self.span.view.attributes.get(semconv.STEP)

    @property
    def span_id(self) -> str:
        """The id of its span."""
        return self.span.span

    @property
    def thought(self) -> float:
        """The seconds in which the model thought before the call, as the guard counted them; 0 if it counted none."""
        return _seconds(self.span.view.attributes.get(semconv.THOUGHT)) if self.span.own else 0.0

    @property
    def usage(self) -> Usage | None:
        """The tokens of the model request that wrote this call; None if the span does not have them."""
        return usage_on_call(self.span.view.attributes) if self.span.own else None

    @property
    def registered(self) -> bool | None:
        """True if the tool is registered, False if not; None if the span does not tell."""
        found = self.span.view.attributes.get(semconv.TOOL_REGISTERED)
        return found if isinstance(found, bool) else None

    def resolve(self, compiled: CompiledPolicy) -> tuple[ResolvedCall, int]:
        """Return the call as the policy's contracts resolve it, and the fingerprint of its arguments."""
        if self.foreign is not None:
            return compiled.contracts.identify(self.foreign.call)
        name, attributes = self.span.tool, self.span.view.attributes
        tool = compiled.contracts.tool(name, None)
        kind = tool.kind
        if not tool.declared and attributes.get(semconv.TOOL_KIND) in _KINDS:
            kind = Kind(attributes[semconv.TOOL_KIND])
        resolved = compiled.contracts.resolve(ToolCall(name))._replace(tool=tool, arguments=None, kind=kind)
        return resolved, _fingerprint(attributes[semconv.ARGUMENTS_HASH])

    def began(self, op: int, state: State, written: int | None) -> Began:
        """Return the event of its begin, with the id ``op``. ``written`` is the turn's tick when the model wrote it.

        A call whose arguments are not known is counted, because it may have changed something, but not judged.
        """
        resolved, arguments = self.resolve(state.compiled)
        ran = False if self.refused else None
        return Began(op, resolved, arguments, self.registered, written=written, ran=ran, judged=self.has_arguments)

    def facts(self, arguments: Any, fingerprinter: Fingerprinter, words: PendingWords | None) -> OutcomeFacts | None:
        """Return the facts about its outcome; None if it was cancelled. The parameters are as of ``outcome_facts``."""
        if self.cancelled:
            return None
        if self.foreign is not None:
            return outcome_facts(self.foreign.outcome, arguments, fingerprinter, words)
        attributes = self.span.view.attributes
        error = attributes.get(semconv.ERROR_HASH)
        digest = _fingerprint(error or attributes.get(semconv.RESULT_HASH) or self.span.span)
        return OutcomeFacts(
            digest=digest,
            data=b"",
            is_error=error is not None,
            shape=0,
            transient=attributes.get(semconv.ERROR_TRANSIENT, attributes.get(semconv.RESULT_TRANSIENT)) is True,
            pending=attributes.get(semconv.RESULT_PENDING) is True,
            empty=_EMPTINESS.get(attributes.get(semconv.RESULT_EMPTY, ""), Emptiness.CONTENT),
            brief=attributes.get(semconv.RESULT_BRIEF) is True,
            over=attributes.get(semconv.RESULT_OVER) is True,
            retry_after=_seconds(attributes.get(semconv.RETRY_AFTER)),
            found=Findings(
                sameness=_SAMENESS.get(attributes.get(semconv.RESULT_SAMENESS, ""), Sameness.DIFFERENT),
                news=attributes.get(semconv.NO_NEWS) is not True,
                row=_number(attributes.get(semconv.EQUAL_IN_ROW)) or 1,
                turns_without_news=_number(attributes.get(semconv.TURNS_WITHOUT_NEWS)),
                acted=attributes.get(semconv.RESULT_ACTED) is True,
            ),
        )


def spans_of(line: Mapping[str, Any], ancestry: Ancestry) -> Iterator[ToolSpan | ModelSpan]:
    """Yield the tool calls and the model requests of one parsed line. Add every span to ``ancestry``."""
    for resource in line["resourceSpans"]:
        service = Service.of(attributes_of(resource.get("resource", {})))
        for scope in resource.get("scopeSpans", ()):
            name = str(scope.get("scope", {}).get("name", ""))
            for span in scope.get("spans", ()):
                found = _read_span(span, name, service, ancestry)
                if found is not None:
                    yield found


def _read_span(
    span: Mapping[str, Any], scope: str, service: Service, ancestry: Ancestry
) -> ToolSpan | ModelSpan | None:
    attributes = attributes_of(span)
    own = (scope == semconv.SCOPE or semconv.TURN_ID in attributes) and semconv.ARGUMENTS_HASH in attributes
    start, end = time_of(span.get("startTimeUnixNano", 0)), time_of(span.get("endTimeUnixNano", 0))
    name, trace = str(span.get("name", "")), str(span.get("traceId", ""))
    ids = str(span.get("spanId", "")), str(span.get("parentSpanId", ""))
    is_server = span.get("kind") in _SERVER
    found = dialects.tool_name(name, attributes, is_server=is_server)
    conversation = dialects.conversation(attributes)
    usage = usage_of_request(attributes) if found is None and not own else None
    add_around(ancestry, trace, ids, attributes, conversation, found, is_request=usage is not None)
    if attributes.get(semconv.TURN_END) in ENDS:
        turn, trips = (
            str(attributes.get(semconv.TURN_ID)),
            (of for name, of in _events(span) if name == semconv.EVENT_TRIP),
        )
        ancestry.end_turn(turn, attributes[semconv.TURN_END], ledger_of(attributes), trips)
    if own:
        ancestry.guard(trace)
        tool = str(attributes.get(semconv.TOOL_NAME) or name)
        if tool == semconv.UNKNOWN_TOOL:
            tool = str(attributes.get(semconv.TOOL_NAME_HASH) or tool)
        turn, index = str(attributes.get(semconv.TURN_ID)), int(attributes.get(semconv.CALL_INDEX, 0))
        view = SpanView(name, attributes, _events(span))
        return ToolSpan(turn, tool, (index, start), start, end, True, trace, view, *ids, conversation, service)  # noqa: FBT003 - a field
    if found is None:
        if usage is None:
            return None
        messages = messages_of(attributes, _events(span))
        return ModelSpan(trace, start, end, usage, *ids, conversation, service, messages)
    status = span.get("status", {})
    failed, description = status.get("code") in _FAILED, status.get("message") or None
    view = SpanView(name, attributes, _events(span), failed, description, is_server)
    return ToolSpan(trace, found, (0, start), start, end, False, trace, view, *ids, conversation, service, scope)  # noqa: FBT003 - a field


def _events(span: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(str(event.get("name", "")), attributes_of(event)) for event in span.get("events", ())]


def add_around(  # noqa: PLR0917 - the facts of a span; it is called once a span
    ancestry: Ancestry,
    trace: str,
    ids: tuple[str, str],
    attributes: Mapping[str, Any],
    conversation: str | None,
    tool: str | None,
    *,
    is_request: bool = False,
) -> None:
    """Add a span to ``ancestry``. ``ids`` are its id and its parent's, ``tool`` is its tool or None."""
    span, parent = ids
    agent = dialects.agent_name(attributes)
    is_plain = conversation is None and agent is None and tool is None and not is_request
    ancestry.add(trace, span, parent if is_plain else SpanAround(parent, conversation, agent, tool, is_request))


def attributes_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a resource, a span, an event or a log record."""
    return {pair["key"]: _value(pair.get("value", {})) for pair in item.get("attributes", ())}


def _value(value: Mapping[str, Any]) -> Any:
    for kind, item in value.items():
        if kind == "intValue":
            return int(item)
        if kind in ("stringValue", "boolValue", "doubleValue"):
            return item
        if kind == "arrayValue":
            return [_value(one) for one in item.get("values", ())]
        if kind == "kvlistValue":
            return {one["key"]: _value(one.get("value", {})) for one in item.get("values", ())}
    return None


def time_of(nanoseconds: Any) -> int:
    """Return a time in nanoseconds. Raise ``ValueError`` if it is none."""
    found = int(nanoseconds)
    if not 0 <= found < _END_OF_TIME:
        raise ValueError("a time must have 64 bits")
    return found


def _seconds(value: Any) -> float:
    return float(value) if type(value) in (int, float) else 0.0


def _number(value: Any) -> int | None:
    return value if type(value) is int else None


def _fingerprint(text: str) -> int:
    """Return the number of a fingerprint such as ``blake2b-64:9f2c...``, or the hash of any other text."""
    _, _, digits = text.rpartition(":")
    try:
        return int(digits[:16], 16)
    except ValueError:
        return hash(text) & 0xFFFFFFFFFFFFFFFF
