"""The tokens of model requests are read from the spans of other instrumentations, and from ours."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard import semconv
from otel_loopguard.engine.vocabulary import Usage
from otel_loopguard.spans import otlp
from otel_loopguard.spans.ancestry import Ancestry
from otel_loopguard.spans.model_requests import usage_of_request, usage_on_call
from otel_loopguard.testing import guarded
from tests.telemetry.agents import stuck

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5"}


@pytest.mark.parametrize(
    ("attributes", "usage"),
    [
        (
            {**CHAT, "gen_ai.usage.input_tokens": 900, "gen_ai.usage.output_tokens": 80},
            Usage("gpt-5", 900, 80),
        ),
        (
            {**CHAT, "gen_ai.usage.input_tokens": 900, "gen_ai.usage.cache_read.input_tokens": 500},
            Usage("gpt-5", 900, None, 500),
        ),
        ({**CHAT, "gen_ai.usage.prompt_tokens": 9, "gen_ai.usage.completion_tokens": 8}, Usage("gpt-5", 9, 8)),
        (
            {"gen_ai.operation.name": "generate_content", "gen_ai.response.model": "gemini"},
            Usage("gemini"),
        ),
        (
            {
                "openinference.span.kind": "LLM",
                "llm.model_name": "claude",
                "llm.token_count.prompt": 7,
                "llm.token_count.completion": 6,
                "llm.token_count.prompt_details.cache_read": 5,
            },
            Usage("claude", 7, 6, 5),
        ),
        (
            {
                "llm.request.type": "chat",
                "gen_ai.response.model": "gpt-4.1",
                "gen_ai.usage.prompt_tokens": 9,
                "gen_ai.usage.completion_tokens": 8,
            },
            Usage("gpt-4.1", 9, 8),
        ),
        (
            {
                "ai.operationId": "ai.streamText.doStream",
                "ai.model.id": "gpt-4.1",
                "ai.usage.promptTokens": 9,
                "gen_ai.usage.output_tokens": 8,
            },
            Usage("gpt-4.1", 9, 8),
        ),
        ({"ai.operationId": "ai.generateText", "ai.usage.promptTokens": 9}, None),
        ({**CHAT, "gen_ai.usage.input_tokens": "many", "gen_ai.usage.output_tokens": -1}, Usage("gpt-5")),
        ({"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 3}, None),
        ({"gen_ai.operation.name": ["chat"]}, None),
        ({"openinference.span.kind": "CHAIN"}, None),
        ({}, None),
    ],
)
def test_each_dialect_has_its_names(attributes: dict[str, Any], usage: Usage | None) -> None:
    """Of OpenTelemetry, older versions of it, and OpenInference; a wrong value is unknown."""
    assert usage_of_request(attributes) == usage


def test_our_own_spans_carry_the_request_of_their_call() -> None:
    """Under names of our own, so that no backend takes the call for a second model request."""
    attributes = {
        semconv.MODEL_NAME: "gpt-5",
        semconv.MODEL_INPUT_TOKENS: 900,
        semconv.MODEL_CACHED_TOKENS: 500,
        semconv.MODEL_OUTPUT_TOKENS: 80,
    }
    assert usage_on_call(attributes) == Usage("gpt-5", 900, 80, 500)
    assert usage_of_request(attributes) is None


def test_a_call_without_a_known_request_carries_none() -> None:
    """As most calls: no model client is patched."""
    with guarded() as recording:
        stuck()
        assert [usage_on_call(span.attributes or {}) for span in recording.spans] == [None] * len(recording.spans)


def test_a_line_gives_tool_calls_and_model_requests() -> None:
    """Any other span is left out."""
    spans = [
        span("a", {**CHAT, "gen_ai.usage.input_tokens": 9}),
        span("b", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}),
        span("c", {"http.method": "GET"}),
    ]
    request, call = otlp.spans_of(
        {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "other"}, "spans": spans}]}]}, Ancestry()
    )
    assert request == otlp.ModelSpan("t", 1, 2, Usage("gpt-5", 9), "a", "")
    assert isinstance(call, otlp.ToolSpan)


def span(span_id: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """A span of another instrumentation, as in a line of a file."""
    values = [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in attributes.items()
    ]
    return {
        "traceId": "t",
        "spanId": span_id,
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "name": "a span",
        "attributes": values,
    }
