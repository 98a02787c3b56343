"""Count the tokens of the scripted model's requests, and estimate those of the requests that were not made.

A scripted model has no tokens of its own: they are counted from the characters that a real one would read and write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.trace import NonRecordingSpan, set_span_in_context

from otel_loopguard.engine.words import Usage
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.report import Spent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from otel_loopguard.cli.demo.rows import Row, StoryResult

FEWEST_STEPS, MOST_STEPS = 10, 50
"""The assumed length of an unguarded run: OpenAI Agents ends one after 10 requests by default, Pydantic AI after 50."""
FIRST_TOKENS = 1_000
"""The assumed size of the prompt and the descriptions of the tools."""
SECONDS = 2.0
"""The assumed duration of one request to a model."""
CHARACTERS = 4
"""The assumed length of a token."""
_MODEL = "scripted"


def usage_of(before: Sequence[Row], row: Row) -> Usage:
    """Return the usage of the request that wrote this call: it read all calls before it, and their results."""
    read = sum(len(one.text) + len(str(one.ask)) for one in before)
    return Usage(_MODEL, FIRST_TOKENS + read // CHARACTERS, len(str(row.ask)) // CHARACTERS)


def book_request(before: Sequence[Row], row: Row, span: ReadableSpan) -> None:
    """Count the request that wrote a call, as the reader of a real model's responses does."""
    runtime = active_runtime.get()
    context = set_span_in_context(NonRecordingSpan(span.context))
    runtime.usage.response("demo", ["call"], usage_of(before, row), context)
    runtime.usage.judged("demo", "call", is_loop=row.in_loop)


def spent_on(rows: Sequence[Row]) -> Spent:
    """Return the tokens of the requests that wrote these calls."""
    used = [usage_of(rows[:number], row) for number, row in enumerate(rows)]
    tokens = [(one.input_tokens or 0) + (one.output_tokens or 0) for one in used]
    return Spent(sum(tokens), sum(number for number, row in zip(tokens, rows, strict=True) if row.in_loop))


class Estimate(NamedTuple):
    """The requests, tokens and seconds that were not spent."""

    requests: int = 0
    tokens: int = 0
    seconds: float = 0.0


def estimate(result: StoryResult, steps: int) -> Estimate:
    """Estimate the requests between the end of this run and ``steps`` of them; each reads all calls before it."""
    made = len(result.rows)
    if result.story.works or result.ended or not made:
        return Estimate()
    a_call = sum(len(row.text) + len(str(row.ask)) for row in result.rows) // made // CHARACTERS
    missing = range(made, steps)
    return Estimate(len(missing), sum(FIRST_TOKENS + number * a_call for number in missing), len(missing) * SECONDS)
