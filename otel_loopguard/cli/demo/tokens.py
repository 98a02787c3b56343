"""Count the tokens of the scripted model's requests, from the characters that a real model would read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.trace import NonRecordingSpan, set_span_in_context

from otel_loopguard.engine.words import Usage
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.report import Spent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from otel_loopguard.cli.demo.rows import Row

FIRST_TOKENS = 1_000
"""The assumed size of the prompt and the descriptions of the tools."""
CHARACTERS = 4
"""The assumed length of a token."""
_MODEL = "scripted"


def _usage_of(before: Sequence[Row], row: Row) -> Usage:
    """Return the usage of the request that wrote this call: it read all calls before it, and their results."""
    read = sum(len(one.text) + len(str(one.ask)) for one in before)
    return Usage(_MODEL, FIRST_TOKENS + read // CHARACTERS, len(str(row.ask)) // CHARACTERS)


def book_request(before: Sequence[Row], row: Row, span: ReadableSpan) -> None:
    """Count the request that wrote a call, as the reader of a real model's responses does."""
    runtime = active_runtime.get()
    context = set_span_in_context(NonRecordingSpan(span.context))
    runtime.usage.response("demo", ["call"], _usage_of(before, row), context)
    runtime.usage.judged("demo", "call", is_loop=row.in_loop)


def spent_on(rows: Sequence[Row]) -> Spent:
    """Return the tokens of the requests that wrote these calls."""
    used = [_usage_of(rows[:number], row) for number, row in enumerate(rows)]
    tokens = [(one.input_tokens or 0) + (one.output_tokens or 0) for one in used]
    return Spent(sum(tokens), sum(number for number, row in zip(tokens, rows, strict=True) if row.in_loop))
