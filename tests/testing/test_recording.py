"""The public test kit records the trips, and its assertions fail when they should."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard import Action, Policy
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.testing import (
    SCENARIOS,
    Ask,
    ScriptedAgent,
    Toolbox,
    Transcript,
    assert_no_trip,
    assert_trips,
    guarded,
)


def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


def test_a_loop_is_told_with_all_that_was_seen() -> None:
    """A failed expectation names mode, action and tool of what there was instead."""
    with guarded() as recording:
        ScriptedAgent({"read": read}, [("read", {"path": "a"})] * 3).run()
    assert [trip.count for trip in assert_trips(recording, "generic_repeat", tool="read")] == [2, 3]
    with pytest.raises(AssertionError, match=r"expected no trip; seen: .*generic_repeat.*block"):
        assert_no_trip(recording)
    with pytest.raises(AssertionError, match=r"at least one x cycle .*seen: .*generic_repeat"):
        assert_trips(recording, "cycle")
    with pytest.raises(AssertionError, match="5 x generic_repeat"):
        assert_trips(recording, "generic_repeat", times=5)


def test_an_agent_that_works_is_no_loop() -> None:
    """The recording is empty of trips, and not of calls."""
    with guarded() as recording:
        ScriptedAgent({"read": read}, [("read", {"path": path}) for path in "abc"]).run()
        assert_no_trip(recording)
        assert recording.outcomes == ["executed"] * 3


def test_a_script_can_look_at_what_it_read() -> None:
    """A function decides on the next call, as a model does; None ends the run."""

    def script(transcript: Transcript) -> Ask | None:
        return None if transcript.refused else Ask("read", {"path": "a"})

    with guarded():
        transcript = ScriptedAgent({"read": read}, script).run()
    assert len(transcript.asked) == 3
    assert transcript.refused == [2]


def test_a_script_that_never_ends_is_a_failed_test() -> None:
    """A scripted agent that never ends raises an AssertionError."""
    with guarded(Policy(action=Action.OBSERVE)), pytest.raises(AssertionError, match="more than 20 calls"):
        ScriptedAgent({"read": read}, lambda _: Ask("read", {"path": "a"}), most=20).run()


def test_a_guard_that_is_on_steps_back_for_the_block() -> None:
    """The outer guard is on again after the block, and has no calls of it."""
    with guarded() as outer:
        before = active_runtime.instrumented
        with guarded() as inner:
            ScriptedAgent({"read": read}, [("read", {"path": "a"})]).run()
        assert active_runtime.instrumented is before
        assert (len(outer.spans), len(inner.spans)) == (0, 1)
        ScriptedAgent({"read": read}, [("read", {"path": "a"})]).run()
        assert len(outer.spans) == 1


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_driver_that_is_not_guarded_fails_its_scenarios(scenario: Any) -> None:
    """The table of scenarios notices a framework whose patch does nothing."""

    def unguarded(tools: Any, steps: Any) -> Transcript:
        transcript = Transcript()
        for step in steps:
            for ask in step:
                function = tools.get(ask.tool)
                transcript.read.append(function(**ask.arguments) if function else "no such tool")
        return transcript

    with pytest.raises(AssertionError):
        scenario.run(unguarded)


def test_the_toolbox_counts() -> None:
    """Each run of each tool."""
    toolbox = Toolbox()
    functions = toolbox.functions()
    functions["read_file"]("a")
    functions["read_file"](path="b")
    assert toolbox.ran == {"read_file": 2}
