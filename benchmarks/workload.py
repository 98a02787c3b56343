"""What the benchmarks measure with: new arguments, results and conversations, a bare span, a provider of tracers."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from otel_loopguard import semconv

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span, Tracer
    from opentelemetry.util.types import AttributeValue

NUMBERS = count()
PADDING = "x" * 120
WORDS = "the quick brown fox jumps over that lazy dog and sees".split()  # noqa: SIM905 - shorter
TEXTS = [" ".join((WORDS[place:] + WORDS[:place]) * 1_000) for place in range(len(WORDS))]
TOOL = "read_file"
TURN = 15
"""Calls of a usual turn."""
ATTRIBUTES: dict[str, AttributeValue] = {
    semconv.OPERATION_NAME: "execute_tool",
    semconv.TOOL_NAME: TOOL,
    semconv.TOOL_TYPE: "function",
    semconv.TURN_ID: "0123456789ab-1",
    semconv.TURN_SOURCE: "explicit",
    semconv.TOOL_KIND: "read",
    semconv.CALL_INDEX: 3,
    semconv.ARGUMENTS_HASH: "blake2b-64:0123456789abcdef",
    semconv.TOOL_REGISTERED: True,
    semconv.OUTCOME: "executed",
    semconv.RESULT_HASH: "blake2b-64:0123456789abcdef",
    semconv.RESULT_SAMENESS: "first",
}
"""The attributes of the span of a guarded call."""


class Nowhere(SpanExporter):
    """Drops all spans, and counts them."""

    def __init__(self) -> None:
        self.spans = 0

    def export(self, spans: Any) -> SpanExportResult:
        """Count them."""
        self.spans += len(spans)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Do nothing."""


def provider(sampler: Any = ALWAYS_ON, exporter: SpanExporter | None = None) -> TracerProvider:
    """Return a tracer provider with a batch processor, as in programs."""
    made = TracerProvider(sampler=sampler)
    made.add_span_processor(BatchSpanProcessor(exporter or Nowhere(), max_queue_size=100_000))
    return made


def arguments() -> dict[str, Any]:
    """Return new arguments of 180 bytes."""
    return {"path": f"/src/app/{next(NUMBERS)}.py", "start": 10, "end": 200, "pattern": PADDING}


def result(size: int = 2_048) -> str:
    """Return a new text whose words differ from those of the last one.

    Results that differ only in a number would be one answer, again and again, and are compared at length.
    """
    number = next(NUMBERS)
    more, first = divmod(number, len(WORDS))
    return f"{WORDS[more % len(WORDS)]} {number} {TEXTS[first]}"[:size]


def bare_span(tracer: Tracer) -> AbstractContextManager[Span]:
    """Open the span of a program that only traces its tools: ours, without the guard."""
    return tracer.start_as_current_span(f"execute_tool {TOOL}", attributes=ATTRIBUTES)


def conversation(number: int, length: int) -> list[dict[str, Any]]:
    """Return the messages of a chat: a question, and then calls that are all different, with results of 1 KB."""
    made: list[dict[str, Any]] = [
        {"role": "system", "content": "Help."},
        {"role": "user", "content": f"question {number}"},
    ]
    while len(made) < length:
        call_id = f"call_{number}_{len(made)}"
        function = {"name": TOOL, "arguments": json.dumps({"path": f"{call_id}.py"})}
        call = {"id": call_id, "type": "function", "function": function}
        made.append({"role": "assistant", "content": "", "tool_calls": [call]})
        made.append({"role": "tool", "tool_call_id": call_id, "content": call_id + " text" * 200})
    for one in made:  # as in a program that has sent them before
        hash(one["content"])
    return made
