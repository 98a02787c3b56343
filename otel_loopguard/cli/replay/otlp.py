"""Tool spans in OTLP JSON lines, as a collector's file exporter writes them: ours, and those of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard import semconv
from otel_loopguard.cli.replay import foreign
from otel_loopguard.core.model import Kind, Outcome, Sameness, ToolCall
from otel_loopguard.core.values.results import OutcomeFacts, outcome_facts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_loopguard.core.tools.contracts import ResolvedCall
    from otel_loopguard.core.turn.compiled import CompiledPolicy

_REFUSED = frozenset({"blocked", "aborted", "reused"})
_SECOND = 1e9
_END_OF_TIME = 1 << 64


class Span(NamedTuple):
    """A tool call, as a span tells it."""

    turn: str
    tool: str
    order: tuple[int, int]
    """The guard's own count of calls where it is there, then the time."""
    start: int
    end: int
    own: bool
    trace: str
    attributes: Mapping[str, Any]
    failed: bool = False
    span: str = ""
    parent: str = ""

    @property
    def refused(self) -> bool:
        """Whether the call did not run."""
        return self.attributes.get(semconv.OUTCOME) in _REFUSED

    @property
    def cancelled(self) -> bool:
        """Whether the call never came back, so that nothing is known of its result."""
        return self.own and self.attributes.get(semconv.OUTCOME) == "cancelled"

    @property
    def seconds(self) -> float:
        """When it started."""
        return self.start / _SECOND

    @property
    def registered(self) -> bool | None:
        """Whether the tool exists, where that was known."""
        found = self.attributes.get(semconv.TOOL_REGISTERED)
        return found if isinstance(found, bool) else None

    @property
    def knows_arguments(self) -> bool:
        """Whether it tells what the tool was called with."""
        return self.own or foreign.knows_arguments(self.attributes)

    @property
    def knows_result(self) -> bool:
        """Whether it tells what came back, if it did not fail."""
        return self.own or self.failed or foreign.knows_result(self.attributes)

    def resolve_call(self, compiled: CompiledPolicy) -> tuple[ResolvedCall, int]:
        """The call as it is judged, and the fingerprint of its arguments."""
        if not self.own:
            return foreign.resolve_call(self.attributes, self.tool, self.span, compiled)
        tool = compiled.contracts.tool(self.tool, None)
        kind = tool.kind if tool.declared else _kind(self.attributes.get(semconv.TOOL_KIND), tool.kind)
        resolved = compiled.contracts.resolve(ToolCall(self.tool))._replace(tool=tool, arguments=None, kind=kind)
        return resolved, digest_of(self.attributes[semconv.ARGUMENTS_HASH])

    def seen(self, compiled: CompiledPolicy) -> OutcomeFacts:
        """What came back."""
        if not self.own:
            outcome = Outcome(foreign.result(self.attributes), is_error=self.failed or None)
            return outcome_facts(outcome, foreign.arguments(self.attributes), compiled.fingerprinter)
        said = self.attributes
        error = said.get(semconv.ERROR_HASH)
        digest = digest_of(error or said.get(semconv.RESULT_HASH) or self.span)
        return OutcomeFacts(
            digest=digest,
            data=b"",
            is_error=error is not None,
            shape=digest if error is not None else 0,
            transient=said.get(semconv.ERROR_TRANSIENT) is True,
            pending=said.get(semconv.RESULT_PENDING) is True,
            empty=False,
            sameness=_SAMENESS.get(said.get(semconv.RESULT_SAMENESS, "")),
        )


_SAMENESS = {str(one): one for one in Sameness}


def _kind(said: Any, named: Kind) -> Kind:
    return Kind(said) if said in _KINDS else named


_KINDS = frozenset(map(str, Kind))


def digest_of(text: str) -> int:
    """The 64 bits of a fingerprint as it is shown; of anything else, bits of its own."""
    _, _, digits = text.rpartition(":")
    try:
        return int(digits[:16], 16)
    except ValueError:
        return hash(text) & 0xFFFFFFFFFFFFFFFF


def spans_of(found: Mapping[str, Any]) -> Iterator[Span]:
    """The tool spans of one line."""
    for resource in found["resourceSpans"]:
        for scope in resource.get("scopeSpans", ()):
            own = scope.get("scope", {}).get("name") == semconv.SCOPE
            for span in scope.get("spans", ()):
                told = _span(span, own=own)
                if told is not None:
                    yield told


def _span(span: Mapping[str, Any], *, own: bool) -> Span | None:
    attributes = {item["key"]: _value(item.get("value", {})) for item in span.get("attributes", ())}
    own = (own or semconv.TURN_ID in attributes) and semconv.ARGUMENTS_HASH in attributes
    start, end = _time(span.get("startTimeUnixNano", 0)), _time(span.get("endTimeUnixNano", 0))
    trace, name = str(span.get("traceId", "")), str(span.get("name", ""))
    if own:
        turn, index = str(attributes.get(semconv.TURN_ID)), attributes.get(semconv.CALL_INDEX, 0)
        tool = str(attributes.get(semconv.TOOL_NAME) or name)
        if tool == semconv.UNKNOWN_TOOL:
            tool = str(attributes.get(semconv.TOOL_NAME_HASH) or tool)
        return Span(turn, tool, (int(index), start), start, end, True, trace, attributes)  # noqa: FBT003
    called = foreign.tool_name(attributes, name)
    if called is None:
        return None
    failed = span.get("status", {}).get("code") in (2, "STATUS_CODE_ERROR")
    return Span(
        trace, called, (0, start), start, end, False, trace, attributes, failed,  # noqa: FBT003
        str(span.get("spanId", "")), str(span.get("parentSpanId", "")),
    )  # fmt: skip


def _time(nanoseconds: Any) -> int:
    found = int(nanoseconds)
    if not 0 <= found < _END_OF_TIME:
        raise ValueError("a time of 64 bits is asked for")
    return found


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
