"""Tool spans are read from OTLP JSON: ours as fingerprints, those of others through the table of dialects."""

from __future__ import annotations

from typing import Any

from otel_loopguard.engine.compiled import CompiledPolicy
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.spans import otlp
from otel_loopguard.spans.ancestry import Ancestry

GENAI = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
OURS = {
    **GENAI,
    "loopguard.turn.id": "turn-1",
    "loopguard.arguments_hash": "blake2b-64:00000000000000ff",
    "loopguard.result_hash": "blake2b-64:000000000000000a",
}


def line_of(attributes: dict[str, Any], name: str = "execute_tool look", **more: Any) -> dict[str, Any]:
    """Make a line with one span. Values that are no text are in the form of OTLP."""
    values = {key: value if isinstance(value, dict) else {"stringValue": value} for key, value in attributes.items()}
    pairs = [{"key": key, "value": value} for key, value in values.items()]
    span = {"traceId": "t", "spanId": "s", "name": name, "attributes": pairs, **more}
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "other"}, "spans": [span]}]}]}


def read(attributes: dict[str, Any], **more: Any) -> otlp.RecordedCall:
    """Read the only tool span of a line."""
    (span,) = otlp.spans_of(line_of(attributes, **more), Ancestry())
    return span.read()


def test_other_spans_are_passed_over() -> None:
    """Spans that are neither tool call nor model request, and the server's half of a call, are left out."""
    embeddings = {"gen_ai.operation.name": "embeddings"}
    for line in (
        line_of(embeddings),
        line_of({}, "GET /"),
        line_of(GENAI, kind=2),
        line_of(GENAI, kind="SPAN_KIND_SERVER"),
    ):
        assert list(otlp.spans_of(line, Ancestry())) == []


def test_every_sort_of_attribute_value_is_read() -> None:
    """Numbers, lists and maps of OTLP become Python's."""
    nested = {"kvlistValue": {"values": [{"key": "a", "value": {"arrayValue": {"values": [{"intValue": "3"}]}}}]}}
    call = read({**GENAI, "gen_ai.tool.call.arguments": nested})
    assert call.foreign is not None
    assert call.foreign.call.arguments == {"a": [3]}


def test_events_and_status_are_read() -> None:
    """The error of a failed call is in an event, or in the description of the status."""
    message = {"key": "exception.message", "value": {"stringValue": "no such file"}}
    status = {"code": "STATUS_CODE_ERROR", "message": "it failed"}
    for events, error in (([{"name": "exception", "attributes": [message]}], "no such file"), ([], "it failed")):
        call = read(GENAI, status=status, events=events)
        assert call.failed
        assert call.foreign is not None
        assert call.foreign.outcome.error == error


def test_our_spans_are_fingerprints() -> None:
    """Our own spans are judged by their fingerprints, without arguments and results."""
    call = read({**OURS, "loopguard.turn.call_index": {"intValue": "4"}}, startTimeUnixNano="2000000000")
    assert (call.span.turn, call.span.order, call.at) == ("turn-1", (4, 2_000_000_000), 2.0)
    assert (call.has_arguments, call.has_result, call.refused, call.cancelled) == (True, True, False, False)
    compiled = CompiledPolicy(Policy())
    assert call.resolve(compiled)[1] == 0xFF
    facts = call.facts({}, compiled.fingerprinter, None)
    assert facts is not None
    assert facts.digest == 0xA


def test_our_span_without_fingerprints_cannot_be_judged() -> None:
    """Our own span without fingerprints is a call without arguments."""
    call = read({key: value for key, value in OURS.items() if "hash" not in key})
    assert (call.has_arguments, call.has_result) == (False, False)


def test_the_end_of_a_turn_is_read_from_its_span() -> None:
    """A word that is no end is left out."""
    ancestry = Ancestry()
    for turn, how in (("a", "aborted"), ("b", "exploded")):
        span = {"gen_ai.operation.name": "invoke_agent", "loopguard.turn.id": turn, "loopguard.turn.end": how}
        assert list(otlp.spans_of(line_of(span, name="invoke_agent"), ancestry)) == []
    assert ancestry.ends == {"a": "aborted"}
