"""Messages in protobuf are read as those in JSON are: the same tool spans, and the same turns."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_loopguard.spans import otlp
from otel_loopguard.spans.ancestry import Ancestry
from otel_loopguard.spans.dialects import READ
from otel_loopguard.spans.otlp_protobuf import decode, spans_of

from .samples import SAMPLES, Call


def recorded(dialect: str, *, error: str | None = None) -> bytes:
    """A message of a program with this instrumentation: a run of an agent with two calls."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer(SAMPLES[dialect].scope)
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c", "n": 3, "list": ["a", "b"]}
    with tracer.start_as_current_span("invoke_agent", attributes=attributes), tracer.start_as_current_span("GET /"):
        for number in range(2):
            SAMPLES[dialect].record(tracer, Call("read_file", {"path": "a", "deep": True}, "text", number, error))
    return encode_spans(exporter.get_finished_spans()).SerializeToString()


def as_json(message: Any) -> Any:
    """The message as a collector's file exporter writes it."""
    found = MessageToDict(message)
    for resource in found["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    span[name] = b64decode(span.get(name, "")).hex()
    return json.loads(json.dumps(found))


@pytest.mark.parametrize("error", [None, "no such file"])
@pytest.mark.parametrize("dialect", SAMPLES)
def test_both_formats_have_the_same_calls(dialect: str, error: str | None) -> None:
    """Of every dialect: arguments, results, ids, times, errors, and the turn."""
    message = decode(recorded(dialect, error=error))
    here, there = Ancestry(), Ancestry()
    in_protobuf = list(spans_of(message, here))
    in_json = list(otlp.spans_of(as_json(message), there))

    assert len(in_protobuf) == 2
    for one, other in zip(in_protobuf, in_json, strict=True):
        assert one._replace(view=one.view._replace(attributes={})) == other._replace(
            view=other.view._replace(attributes={})
        )
        read = one.read().foreign, other.read().foreign
        assert read[0] is not None
        assert read[1] is not None
        assert (read[0].outcome.error, read[0].has_result) == (read[1].outcome.error, read[1].has_result)
        if read[0].has_result:
            assert read[0].outcome == read[1].outcome
        if read[0].has_arguments:
            assert read[0].call == read[1].call
        assert here.turn_of(one) == there.turn_of(other)
        assert here.turn_of(one).source == "conversation"


@pytest.mark.parametrize(
    "attributes",
    [
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": "c",
            "gen_ai.request.model": "gpt-5",
            "gen_ai.usage.input_tokens": 9,
            "gen_ai.usage.cache_read.input_tokens": 8,
            "gen_ai.usage.output_tokens": 7,
        },
        {
            "openinference.span.kind": "LLM",
            "llm.model_name": "claude",
            "llm.token_count.prompt": 7,
            "llm.token_count.prompt_details.cache_read": 5,
            "llm.token_count.completion": 6,
        },
    ],
)
def test_both_formats_have_the_same_model_requests(attributes: dict[str, Any]) -> None:
    """With their times and tokens."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("made").start_as_current_span("run"):
        provider.get_tracer("made").start_span("chat", attributes=attributes, start_time=10).end(20)
    message = decode(encode_spans(exporter.get_finished_spans()).SerializeToString())
    (request,) = spans_of(message, Ancestry())
    assert isinstance(request, otlp.ModelSpan)
    assert (request.start, request.end, None in request.usage) == (10, 20, False)
    assert [request] == list(otlp.spans_of(as_json(message), Ancestry()))


def test_attributes_that_are_not_read_are_not_decoded() -> None:
    """Of a tool call only those that a dialect names are there."""
    message = decode(recorded("opentelemetry"))
    (first, *_) = spans_of(message, Ancestry())
    assert first.view.attributes.keys() <= READ
