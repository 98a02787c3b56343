"""The bound on log lines: one turn a tool, mode and minute has a line."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import otel_loopguard as loopguard
from otel_loopguard.telemetry.log_throttle import SECONDS, LogThrottle
from otel_loopguard.testing import guarded
from tests.telemetry.agents import look, stuck

if TYPE_CHECKING:
    import pytest


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings."""
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def loop_to_the_end(tool: str = "look") -> None:
    """Loop until the run is ended: alone it has two lines."""
    try:
        with loopguard.turn():
            for _ in range(20):
                loopguard.call(tool, {"path": "a"}, look)
    except loopguard.ToolLoopError:
        pass


def test_a_hundred_stopped_turns_have_the_lines_of_one(caplog: pytest.LogCaptureFixture) -> None:
    """A minute later the next one has lines again, and the first says how many turns had none."""
    clock = Clock()
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded(clock=clock) as recording:
        for _ in range(100):
            loop_to_the_end()
        assert [line.split(" ")[0] for line in lines(caplog)] == ["Refused", "Ended"]
        clock.now += SECONDS
        loop_to_the_end()
        _, _, refused, ended = lines(caplog)
        assert recording.runtime.providers.summary.ended == 101
    assert refused.endswith("]. And 99 more turns since the last such line.")
    assert "more turns" not in ended


def test_another_tool_has_lines_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """A second loop is not hidden by the first one."""
    with caplog.at_level(logging.WARNING, "otel_loopguard"), guarded(clock=Clock()):
        stuck()
        loop_to_the_end("peek")
    assert [line.split(":")[0] for line in lines(caplog)] == [
        "Refused look",
        "Refused peek",
        "Ended the run after 10 refusals (abort_after 10), at peek",
    ]


def test_any_number_of_tools_takes_a_bounded_memory_and_number_of_lines() -> None:
    """Beyond the bound tools share one turn a minute; those whose minute is over make room."""
    clock = Clock()
    limit = LogThrottle(clock)
    for _ in range(2):
        asked = [limit.ask(f"tool {number}", "generic_repeat") for number in range(5_000)]
        assert asked.count(None) == 3_999
        assert len(limit._lines) <= 1_001
        clock.now += SECONDS
