"""The demo's program: providers of its own, the guard switched on as any program does it, and stories told in it."""

from __future__ import annotations

import logging
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from otel_loopguard.cli.demo.model import Model, PolicyFileWatch, Row
from otel_loopguard.cli.demo.stories import POLICY, Story
from otel_loopguard.cli.demo.world import World
from otel_loopguard.errors import ToolLoopError
from otel_loopguard.instrumentation.start import instrument, uninstrument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_loopguard.cli.demo.drivers import Run
    from otel_loopguard.cli.demo.outlets import Outlets


class Told(NamedTuple):
    """A story that was told to its end."""

    story: Story
    rows: list[Row]
    error: ToolLoopError | None
    ended: str
    """Why the framework itself ended the run, if it did."""

    @property
    def as_it_should(self) -> bool:
        """Whether a stuck agent was stopped, or a working one left alone."""
        return bool(self.ended) or any(row.refused for row in self.rows) != self.story.works


class Session:
    """Runs stories with one framework, all of them under the same guard."""

    def __init__(self, run: Run, watch: PolicyFileWatch, show: Callable[[Row], None]) -> None:
        self._run = run
        self._watch = watch
        self._show = show

    def tell(self, story: Story) -> Told:
        """One message of a user, in a world of its own."""
        model, error = Model(story, self._watch, self._show), None
        with tempfile.TemporaryDirectory(prefix="loopguard-demo-") as folder:
            try:
                self._run(World(Path(folder)).tools(), model)
            except ToolLoopError as ended:
                error = ended
                model.hear(str(ended))
        return Told(story, model.rows, error, model.ended)


@contextmanager
def guarded(outlets: Outlets | None = None) -> Iterator[PolicyFileWatch]:
    """The guard is on; ``outlets`` are those to a collector."""
    # The settings of a user's own programs do not count here: all spans are wanted, and nothing goes to a vendor.
    os.environ.pop("OTEL_SDK_DISABLED", None)
    os.environ.update(LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false")
    for name in ("otel_loopguard", "openai.agents", "mcp"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what they would say is shown already
    watch = PolicyFileWatch()
    tracers = TracerProvider(sampler=ALWAYS_ON) if outlets is None else outlets.tracers
    tracers.add_span_processor(watch)
    instrument(POLICY, tracer_provider=tracers, meter_provider=None if outlets is None else outlets.meters)
    try:
        yield watch
    finally:
        uninstrument()
