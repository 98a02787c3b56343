"""Run stories under the guard, and read each call back with the guard's decision about it and the reason."""

from __future__ import annotations

import logging
import os
import warnings
from collections import deque
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.sdk.trace import SpanProcessor

from otel_loopguard import semconv
from otel_loopguard.cli.demo.reasons import reason_of
from otel_loopguard.cli.demo.stories import LANGGRAPH, POLICY
from otel_loopguard.cli.demo.world import make_tools
from otel_loopguard.engine.vocabulary import Usage
from otel_loopguard.errors import ToolLoopError
from otel_loopguard.instrumentation.call import GuardedCall
from otel_loopguard.instrumentation.instrumentor import instrument, uninstrument
from otel_loopguard.instrumentation.model_request import own
from otel_loopguard.report import Spent
from otel_loopguard.testing.agent import ScriptedAgent
from otel_loopguard.turns.scope import CALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from opentelemetry.context import Context
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import Span, TracerProvider

    from otel_loopguard.cli.demo.stories import NextCall, Story
    from otel_loopguard.cli.demo.world import Tools
    from otel_loopguard.testing.agent import Ask, Transcript

    Agent: TypeAlias = Callable[[Tools, NextCall], Transcript]

FIRST_TOKENS = 1_000
"""The tokens that are assumed for the prompt and the descriptions of the tools."""
CHARACTERS = 4
"""The characters that are assumed to be one token."""


class Row(NamedTuple):
    """One call: what the model asked for, the guard's decision with its reason, and the text that the model read."""

    ask: Ask
    outcome: str
    """As in ``loopguard.outcome``; ``nudged`` for any result that carries a sentence, also that of a failed call."""
    mode: str
    """The loop that was detected; empty if none was."""
    reason: str
    text: str
    at: float
    """The start of the call, in seconds since 1970."""
    tokens: int
    """Of the model request that asked for this call, input and output together."""
    in_loop: bool
    """The call was refused, or was a repeat without news."""

    @property
    def refused(self) -> bool:
        """True if the tool did not run."""
        return self.outcome in semconv.REFUSED_OUTCOMES


class StoryResult(NamedTuple):
    """A story, run to its end."""

    story: Story
    rows: list[Row]
    error: ToolLoopError | None
    """The error with which the guard ended the run; None if it did not."""

    @property
    def as_expected(self) -> bool:
        """True if a stuck agent was stopped, or a working one not hindered."""
        return any(row.refused for row in self.rows) != self.story.works

    @property
    def spent(self) -> Spent:
        """The tokens of all model requests of the story."""
        return Spent(sum(row.tokens for row in self.rows), sum(row.tokens for row in self.rows if row.in_loop))


class CallLog(SpanProcessor):
    """Keeps the calls that the guard has seen and that ``run_story`` has not read back yet, each with its span."""

    def __init__(self) -> None:
        self.calls: deque[tuple[Span, GuardedCall]] = deque()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Keep a span of a tool call, with the call."""
        call = None if parent_context is None else parent_context.get(CALL)
        if isinstance(call, GuardedCall):
            self.calls.append((span, call))


@contextmanager
def guarded(tracers: TracerProvider, meters: MeterProvider | None) -> Iterator[CallLog]:
    """Switch the guard on for a block, with these providers, as any program does; yield the calls that it sees."""
    os.environ["OTEL_PYTHON_LOOPGUARD_SUMMARY"] = "off"  # the demo has its own
    logger, log = logging.getLogger("otel_loopguard"), CallLog()
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # the demo shows its news already
    tracers.add_span_processor(log)
    instrument(POLICY, tracer_provider=tracers, meter_provider=meters)
    try:
        yield log
    finally:
        uninstrument()
        logger.setLevel(level)


def agent_of(story: Story) -> Agent | None:
    """Return the agent that runs a story; None if it needs LangGraph, which is not installed or too old."""
    if story.name != LANGGRAPH:
        return _by_hand
    try:
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("ignore")  # some versions warn of themselves, after a filter of their own
            from otel_loopguard.cli.demo import langgraph_agent  # noqa: PLC0415 - imports LangGraph
    except ImportError:
        return None
    return lambda tools, next_call: copy_context().run(_unread, langgraph_agent.run, tools, next_call)


def _unread(agent: Agent, tools: Tools, next_call: NextCall) -> Transcript:
    """Run an agent whose requests nobody reads: the demo counts them, because the scripted model tells no tokens."""
    own()
    return agent(tools, next_call)


def _by_hand(tools: Tools, next_call: NextCall) -> Transcript:
    return ScriptedAgent(tools, lambda transcript: next_call(transcript.read), agent_name="demo").run()


def run_story(story: Story, agent: Agent, log: CallLog, show: Callable[[int, Row], None]) -> StoryResult:
    """Run one message of a user, in a new world. ``show`` gets each call when it is over, with its number from 1."""
    rows: list[Row] = []

    def add_row(text: str) -> None:
        span, call = log.calls.popleft()
        rows.append(_row_of(story.script[len(rows)], span, call, text, rows))
        show(len(rows), rows[-1])

    def next_call(read: Sequence[str]) -> Ask | None:
        for text in read[len(rows) :]:
            add_row(text)
        gives_up = sum(row.refused for row in rows) >= story.gives_up
        return None if gives_up or len(rows) == len(story.script) else story.script[len(rows)]

    error = agent(make_tools(), next_call).error
    if error is not None:
        if not isinstance(error, ToolLoopError):
            raise error
        add_row(str(error))
    return StoryResult(story, rows, error)


def _row_of(ask: Ask, span: Span, call: GuardedCall, text: str, before: Sequence[Row]) -> Row:
    """Make the row of a call whose result is this text, and count the model request that asked for it.

    That request read all calls ``before`` and their results. A real model's usage would be in its response.
    """
    attributes: Any = span.attributes
    trip: Any = next((event.attributes for event in span.events if event.name == semconv.EVENT_TRIP), {})
    is_loop = call.decision.is_loop_step
    read = sum(len(one.text) + len(str(one.ask)) for one in before)
    usage = Usage("scripted", FIRST_TOKENS + read // CHARACTERS, len(str(ask)) // CHARACTERS)
    call.runtime.usage.response("demo", ["call"], usage, call.span.context)
    call.runtime.usage.judged("demo", "call", is_loop=is_loop)
    is_nudged = trip.get(semconv.ACTION) == "nudge" and not attributes.get(semconv.UNDELIVERED)
    return Row(
        ask,
        outcome="nudged" if is_nudged else str(attributes[semconv.OUTCOME]),
        mode=str(trip.get(semconv.MODE, "")),
        reason=reason_of(call.decision.record, trip),
        text=text,
        at=(span.start_time or 0) / 1e9,
        tokens=(usage.input_tokens or 0) + (usage.output_tokens or 0),
        in_loop=is_loop,
    )
