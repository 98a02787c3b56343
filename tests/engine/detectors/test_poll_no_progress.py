"""``poll_no_progress``: something is polled that makes no progress. Told at the 10th, refused at the 20th."""

from __future__ import annotations

import json

import pytest

from .driver import LONG, Driven

MODE = "poll_no_progress"


def polled(driven, times, tool="get_build_status", result="running", **more):
    for _ in range(times):
        driven(tool, result, build=7, **more)
    return driven


@pytest.mark.parametrize(
    ("tool", "result"),
    [("get_build_status", "running"), ("read_page", "The export is still pending."), ("read_page", "40 % done")],
)
def test_it_is_told_at_the_10th_and_refused_at_the_20th(tool, result):
    """A tool that polls by its name, and a result that says that it waits."""
    driven = polled(Driven(MODE), 20, tool, result)
    assert (driven.told(), driven.refused()) == ([10], [20])
    assert driven.said[9].decision.message == (
        "[loopguard] This is check 10 without anything new: wait longer between checks, or say so."
    )
    assert (
        "was asked 19 times and still reports nothing new." in json.loads(driven.said[19].decision.message)["message"]
    )


def test_progress_is_news():
    """Numbers that keep their direction: 1 of 40, 2 of 40."""
    driven = Driven(MODE)
    for number in range(40):
        driven("get_build_status", f"{number} of 40 steps are done", build=7)
    assert driven.quiet


@pytest.mark.parametrize("result", ["status: failed", "Zustand: abgebrochen"])
def test_a_poll_of_something_that_is_over_has_no_patience(result):
    """It is refused at the third, as any look; by another mode."""
    driven = polled(Driven(), 3, result=result)
    assert driven.refused("generic_repeat") == [3]


def test_who_waits_between_the_checks_may_go_on_longer():
    """A look each minute is refused much later than hasty ones."""
    driven = polled(Driven(MODE), 30, pause=60.0)
    assert driven.refused() == []


def test_a_declared_interval_and_patience_are_limits_of_this_mode():
    """``interval`` is the pause that counts as waiting, ``patience`` the seconds after which it is refused."""
    tools = {"get_build_status": {"interval": 2.0, "patience": 100.0}}
    driven = polled(Driven(MODE, tools=tools), 60, pause=3.0)
    refused = driven.refused()[0]
    assert driven.said[refused - 1].decision.trip.reason == "patience"
    assert 33 <= refused <= 36
    assert "has been polled for too long" in driven.said[refused - 1].decision.message


def test_a_call_that_does_not_wait_is_none_of_its():
    """The same answer to the same question belongs to ``generic_repeat``."""
    driven = Driven(MODE)
    for _ in range(30):
        driven(result=LONG, path="a")
    assert driven.quiet


def test_a_job_that_ends_is_news():
    """Nineteen checks, then the result."""
    driven = polled(Driven(), 9)
    assert driven("get_build_status", "The build has passed.", build=7).message is None
    assert driven.quiet
