"""Run stories under the guard, one after the other or as load without end."""

from __future__ import annotations

import logging
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter, deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from otel_loopguard.cli.demo.rows import Row, SpanLog, StoryResult, row_of
from otel_loopguard.cli.demo.screen import write_block
from otel_loopguard.cli.demo.stories import POLICY, STUCK, WORKING, Story
from otel_loopguard.cli.demo.tokens import book_request
from otel_loopguard.cli.output import counted
from otel_loopguard.errors import ToolLoopError
from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from otel_loopguard.instrumentation.instrumentor import instrument, uninstrument
from otel_loopguard.testing.scripted.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from otel_loopguard.cli.demo.export import Exports
    from otel_loopguard.cli.demo.screen import Screen
    from otel_loopguard.testing.agent import Ask
    from otel_loopguard.testing.scripted import ScriptedRun


class Model:
    """Makes the calls of a story one after the other, until it has read often enough that it is in a loop."""

    def __init__(self, story: Story, spans: SpanLog, show: Callable[[Row], None]) -> None:
        self._story = story
        self._spans = spans
        self._show = show
        self._asked: deque[Ask] = deque()
        self.rows: list[Row] = []

    def next(self, read: Sequence[str]) -> Sequence[Ask]:
        """Give the next call, or none for the answer; ``read`` are the results of all calls so far."""
        for text in read[len(self.rows) :]:
            self.add_row(text)
        step, refused = len(self.rows), sum(row.refused for row in self.rows)
        if step >= len(self._story.script) or refused >= self._story.gives_up:
            return ()
        self._asked.append(self._story.script[step])
        return (self._asked[-1],)

    def add_row(self, text: str) -> None:
        """Add the row of the last call, which ended with this text."""
        if self._asked and self._spans.ended:
            span, call = self._spans.ended.popleft()
            row = row_of(len(self.rows) + 1, self._asked.popleft(), span, call, text)
            book_request(self.rows, row, span)
            self.rows.append(row)
            self._show(row)


class Session:
    """Runs stories with one framework, all of them under the same guard."""

    def __init__(self, run: ScriptedRun, spans: SpanLog, show: Callable[[Row], None]) -> None:
        self._run = run
        self._spans = spans
        self._show = show

    def run(self, story: Story) -> StoryResult:
        """Run one message of a user, in a world that no other story shares."""
        model = Model(story, self._spans, self._show)
        with tempfile.TemporaryDirectory(prefix="loopguard-demo-") as folder:
            transcript = self._run(World(Path(folder)).tools(), model.next)
        error = transcript.error
        if error is not None and not isinstance(error, ToolLoopError):
            raise error
        if error is not None or transcript.ended:
            model.add_row(str(error or transcript.ended))
        return StoryResult(story, model.rows, error, transcript.ended)


@contextmanager
def guarded(exports: Exports | None = None) -> Iterator[SpanLog]:
    """Switch the guard on for a block, as any program does; ``exports`` send the telemetry to a collector."""
    # The settings of a user's own programs do not apply here: the demo needs all spans.
    os.environ.pop("OTEL_SDK_DISABLED", None)
    os.environ["OTEL_PYTHON_LOOPGUARD_SUMMARY"] = "off"  # the demo has its own
    for name in ("otel_loopguard", *(logger for framework in FRAMEWORKS for logger in framework.loggers)):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # the demo shows their news already
    spans = SpanLog()
    tracers = TracerProvider(sampler=ALWAYS_ON) if exports is None else exports.tracers
    tracers.add_span_processor(spans)
    instrument(POLICY, tracer_provider=tracers, meter_provider=None if exports is None else exports.meters)
    try:
        yield spans
    finally:
        uninstrument()


# --- load without end ----------------------------------------------------------------------------------------------

SHARE_STUCK = 0.3
_PAUSE_SECONDS = (0.05, 0.6)
_REPORT_EVERY_SECONDS = 10.0


def run_forever(session: Session, screen: Screen) -> None:
    """Run stories, drawn at random, and count them, until SIGINT or SIGTERM. Most agents work, some are stuck."""
    counts: Counter[str] = Counter()
    draw, reported = random.Random(), time.monotonic()  # noqa: S311 - it protects nothing
    _interrupt_on_terminate()
    write_block(screen, "Load until Ctrl-C: seven in ten agents work, three are stuck.", 0, "bold")
    try:
        while True:
            result = session.run(draw.choice(STUCK if draw.random() < SHARE_STUCK else WORKING))
            counts["runs"] += 1
            counts["calls"] += len(result.rows)
            counts["refused"] += sum(row.refused for row in result.rows)
            counts["ended"] += result.error is not None
            if time.monotonic() - reported > _REPORT_EVERY_SECONDS:
                reported = time.monotonic()
                write_block(screen, _counts_line(counts))
            time.sleep(draw.uniform(*_PAUSE_SECONDS))
    except KeyboardInterrupt:
        write_block(screen, f"Stopped. {_counts_line(counts)}", 0, "bold")


def _counts_line(counts: Counter[str]) -> str:
    runs, calls, ended = (
        counted(counts[one], word) for one, word in (("runs", "run"), ("calls", "call"), ("ended", "run"))
    )
    return f"{runs}, {calls}, {counts['refused']:,} refused, {ended} ended"


def _interrupt_on_terminate() -> None:
    """End on SIGTERM as on Ctrl-C: containers are stopped by it."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)
