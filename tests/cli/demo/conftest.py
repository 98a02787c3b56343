"""The stories of the demo, run under a guard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_loopguard.cli.demo.run import CallLog, agent_of, run_story
from otel_loopguard.cli.demo.stories import POLICY, STORIES, STUCK
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_loopguard import Policy
    from otel_loopguard.cli.demo.run import StoryResult
    from otel_loopguard.cli.demo.stories import Story
    from otel_loopguard.testing import Recording


SHOWN = {str(story.name) for story in STUCK} - {"abort_after", "langgraph"}
"""The modes that the demo shows."""


def run_stories(stories: Iterable[Story], policy: Policy = POLICY) -> tuple[list[StoryResult], Recording]:
    """Run these stories, and return their results with the recording of the guard."""
    log = CallLog()
    with guarded(policy) as recording:
        recording.tracer_provider.add_span_processor(log)
        runs = ((story, agent) for story in stories if (agent := agent_of(story)))
        return [run_story(story, agent, log, lambda _number, _row: None) for story, agent in runs], recording


@pytest.fixture(scope="module")
def results() -> dict[str, StoryResult]:
    """The results of all stories, by name."""
    return {result.story.name: result for result in run_stories(STORIES.values())[0]}
