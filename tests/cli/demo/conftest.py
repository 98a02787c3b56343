"""The stories of the demo, run under a guard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_loopguard.cli.demo.rows import SpanLog
from otel_loopguard.cli.demo.session import Session, agent_of
from otel_loopguard.cli.demo.stories import POLICY, STORIES
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_loopguard import Policy
    from otel_loopguard.cli.demo.rows import StoryResult
    from otel_loopguard.cli.demo.stories import Story
    from otel_loopguard.testing import Recording


def run_stories(stories: Iterable[Story], policy: Policy = POLICY) -> tuple[list[StoryResult], Recording]:
    """Run these stories, and return their results with the recording of the guard."""
    spans = SpanLog()
    with guarded(policy) as recording:
        recording.tracer_provider.add_span_processor(spans)
        session = Session(spans, lambda _row: None)
        return [session.run(story, agent) for story in stories if (agent := agent_of(story))], recording


@pytest.fixture(scope="module")
def results() -> dict[str, StoryResult]:
    """The results of all stories, by name."""
    return {result.story.name: result for result in run_stories(STORIES.values())[0]}
