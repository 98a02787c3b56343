"""The stories of the demo, run by hand."""

from __future__ import annotations

import pytest

from otel_loopguard.cli.demo.rows import SpanLog
from otel_loopguard.cli.demo.session import Session
from otel_loopguard.cli.demo.stories import POLICY, STORIES
from otel_loopguard.testing import guarded
from otel_loopguard.testing.scripted import BY_HAND, load


@pytest.fixture(scope="module")
def results():
    """The results of all stories, by name."""
    spans = SpanLog()
    with guarded(POLICY) as recording:
        recording.tracer_provider.add_span_processor(spans)
        session = Session(load(BY_HAND), spans, lambda _row: None)
        return {name: session.run(story) for name, story in STORIES.items()}
