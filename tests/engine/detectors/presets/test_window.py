"""The calls that count under ``counting = "calls"``, in the preset that has a window of seconds: ``typed_window``."""

from __future__ import annotations

import json

from otel_loopguard.engine.vocabulary import Outcome, ToolCall

from .driver import Driven


def test_equal_polls_leave_the_window():
    """A poll every ten seconds has seven equal results in the window at most."""
    driven = Driven("typed_window")
    for _ in range(30):
        assert driven.runs("get_job_status", {"id": 7}, result="queued")
        driven.now += 10


def test_parallel_polls_end_in_any_order():
    """The state of each poll is noted where it began."""
    driven = Driven("typed_window", "[modes.poll_no_progress]\nblock = 4\n")
    calls = [ToolCall("get_job_status", {"id": 7}) for _ in range(3)]
    for call in calls:
        assert driven.turn.begin(call).runs
    for call, state in zip(reversed(calls), ("done", "running", "queued"), strict=True):
        driven.turn.end(call, Outcome(state))
    assert [driven.runs("get_job_status", {"id": 7}, result="done") for _ in range(4)] == [True] * 3 + [False]


def test_a_restored_turn_knows_which_polls_moved():
    """The state of the turn has the counted polls, and where they moved."""
    driven = Driven("typed_window")
    for state in ["queued"] * 8 + ["running"] * 8:
        driven("get_job_status", {"id": 7}, result=state)
    written = driven.turn.state()
    driven.next_turn()
    driven.turn.restore(written)
    assert driven.runs("get_job_status", {"id": 7}, result="running")
    assert json.loads(driven("get_job_status", {"id": 7}).message)["mode"] == "poll_no_progress"


def test_the_window_rolls():
    """Calls that are older than the window do not count."""
    driven = Driven("typed_window")
    for _ in range(20):
        assert driven.runs("read_file", {"path": "a"})
        driven.now += 16


def test_refused_calls_count():
    """A model that repeats refused calls stays refused until it makes none for as long as the window."""
    driven = Driven("typed_window")
    for _ in range(4):
        driven("read_file", {"path": "a"})
    for _ in range(20):
        assert not driven.runs("read_file", {"path": "a"})
        driven.now += 10
    driven.now += 60.1
    assert driven.runs("read_file", {"path": "a"})
