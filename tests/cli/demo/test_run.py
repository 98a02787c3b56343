"""The stories of the demo: each mode really happens, and the guard decides."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from otel_loopguard.cli.demo.stories import POLICY, STORIES, STUCK, WORKING
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.vocabulary import Action
from tests.cli.demo.conftest import SHOWN, run_stories


def test_a_stuck_story_has_the_name_of_its_mode():
    """The demo shows the modes in stories of their names, a run that ends, and an agent of LangGraph."""
    assert set(map(str, Mode)) >= SHOWN


def test_each_mode_is_fallen_into_and_refused(results):
    """Every stuck story is refused first for its own mode, by hand and in LangGraph; work is not."""
    pytest.importorskip("langgraph")
    first = {name: next((row.mode for row in result.rows if row.refused), None) for name, result in results.items()}
    expected = {mode: mode for mode in SHOWN} | dict.fromkeys(("abort_after", "langgraph"), "generic_repeat")
    assert first == expected | {story.name: None for story in WORKING}
    assert all(result.as_expected for result in results.values())
    assert [result.story.name for result in results.values() if result.error] == ["abort_after"]


def test_decisions_are_the_guards_own():
    """Nothing is acted: under a policy that only observes, the same stories are refused nowhere."""
    results, _ = run_stories(STUCK[:3], replace(POLICY, action=Action.OBSERVE))
    assert [row.outcome for result in results for row in result.rows if row.outcome not in ("executed", "failed")] == []
    assert not any(result.as_expected for result in results)


def test_the_tokens_of_the_summary_are_those_of_the_metric():
    """Each request is counted once, as a step of a loop or as work; an agent that works is in no loop."""
    results, recording = run_stories((*STUCK[:4], STORIES["langgraph"], *WORKING))
    spent = [result.spent for result in results]
    counted = partial(recording.counted, "loopguard.model.tokens")
    assert counted() == sum(one.tokens for one in spent)
    assert counted(loopguard__step="loop") == sum(one.in_loops for one in spent)
    assert recording.counted("loopguard.model.requests") == sum(len(result.rows) for result in results)
    assert [bool(one.in_loops) for one in spent] == [not result.story.works for result in results]
