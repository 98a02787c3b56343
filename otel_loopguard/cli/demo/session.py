"""Run stories under the guard, one after the other or as load without end."""

from __future__ import annotations

import logging
import os
import random
import signal
import tempfile
import threading
import time
import warnings
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from otel_loopguard.cli.demo.rows import Row, SpanLog, StoryResult, row_of
from otel_loopguard.cli.demo.stories import POLICY, STUCK, WORKING, Story
from otel_loopguard.cli.demo.tokens import book_request
from otel_loopguard.cli.demo.world import make_tools
from otel_loopguard.cli.output import counted
from otel_loopguard.errors import ToolLoopError
from otel_loopguard.instrumentation.instrumentor import instrument, uninstrument
from otel_loopguard.testing.agent import Ask, ScriptedAgent, Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from otel_loopguard.cli.demo.export import DemoProviders
    from otel_loopguard.cli.demo.screen import Screen
    from otel_loopguard.cli.demo.stories import NextCall
    from otel_loopguard.cli.demo.world import Tools

    Agent: TypeAlias = Callable[[Tools, NextCall], Transcript]


def agent_of(story: Story) -> Agent | None:
    """Return the agent of a story; None if it needs LangGraph, which is not installed here or too old."""
    if not story.of_langgraph:
        return _by_hand
    try:
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("ignore")  # some versions warn of themselves, after a filter of their own
            from otel_loopguard.cli.demo import langgraph_agent  # noqa: PLC0415 - imports LangGraph
    except ImportError:
        return None
    return langgraph_agent.run


def _by_hand(tools: Tools, next_call: NextCall) -> Transcript:
    return ScriptedAgent(tools, lambda transcript: next_call(transcript.read), agent_name="demo").run()


class Session:
    """Runs stories, all of them under the same guard, and shows the row of each call as it ends."""

    def __init__(self, spans: SpanLog, show: Callable[[Row], None]) -> None:
        self._spans = spans
        self._show = show

    def run(self, story: Story, agent: Agent) -> StoryResult:
        """Run one message of a user, in a world that no other story shares."""
        rows: list[Row] = []

        def next_call(read: Sequence[str]) -> Ask | None:
            for text in read[len(rows) :]:
                self._add_row(story, rows, text)
            gives_up = sum(row.refused for row in rows) >= story.gives_up
            return None if gives_up or len(rows) == len(story.script) else story.script[len(rows)]

        with tempfile.TemporaryDirectory(prefix="loopguard-demo-") as folder:
            error = agent(make_tools(Path(folder)), next_call).error
        if error is not None and not isinstance(error, ToolLoopError):
            raise error
        if error is not None:
            self._add_row(story, rows, str(error))
        return StoryResult(story, rows, error)

    def _add_row(self, story: Story, rows: list[Row], text: str) -> None:
        """Add the row of the last call, which ended with this text."""
        span, call = self._spans.ended.popleft()
        row = row_of(len(rows) + 1, story.script[len(rows)], span, call, text)
        book_request(rows, row, span)
        rows.append(row)
        self._show(row)


@contextmanager
def guarded(exports: DemoProviders | None = None) -> Iterator[SpanLog]:
    """Switch the guard on for a block, as any program does; ``exports`` send the telemetry to a collector."""
    # The settings of a user's own programs do not apply here: the demo needs all spans.
    os.environ.pop("OTEL_SDK_DISABLED", None)
    os.environ["OTEL_PYTHON_LOOPGUARD_SUMMARY"] = "off"  # the demo has its own
    log = logging.getLogger("otel_loopguard")
    level = log.level
    log.setLevel(logging.CRITICAL)  # the demo shows its news already
    spans = SpanLog()
    tracers = TracerProvider(sampler=ALWAYS_ON) if exports is None else exports.tracers
    tracers.add_span_processor(spans)
    instrument(POLICY, tracer_provider=tracers, meter_provider=None if exports is None else exports.meters)
    try:
        yield spans
    finally:
        uninstrument()
        log.setLevel(level)


# --- load without end ----------------------------------------------------------------------------------------------

_SHARE_STUCK = 0.3
_PAUSE_SECONDS = (0.05, 0.6)
_REPORT_EVERY_SECONDS = 10.0


def run_forever(session: Session, screen: Screen) -> None:
    """Run stories, drawn at random, and count them, until SIGINT or SIGTERM. Most agents work, some are stuck."""
    counts: Counter[str] = Counter()
    draw, reported = random.Random(), time.monotonic()  # noqa: S311 - it protects nothing
    _interrupt_on_terminate()
    screen.write("Load until Ctrl-C: seven in ten agents work, three are stuck.", "bold")
    try:
        while True:
            story = draw.choice(STUCK if draw.random() < _SHARE_STUCK else WORKING)
            result = session.run(story, agent_of(story) or _by_hand)
            counts["run"] += 1
            counts["call"] += len(result.rows)
            counts["refused"] += sum(row.refused for row in result.rows)
            counts["ended"] += result.error is not None
            if time.monotonic() - reported > _REPORT_EVERY_SECONDS:
                reported = time.monotonic()
                screen.write(_counts_line(counts))
            time.sleep(draw.uniform(*_PAUSE_SECONDS))
    except KeyboardInterrupt:
        screen.write(f"Stopped. {_counts_line(counts)}", "bold")


def _counts_line(counts: Counter[str]) -> str:
    runs, calls = (counted(counts[word], word) for word in ("run", "call"))
    return f"{runs}, {calls}, {counts['refused']:,} refused, {counted(counts['ended'], 'run')} ended"


def _interrupt_on_terminate() -> None:
    """End on SIGTERM as on Ctrl-C: containers are stopped by it."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)
