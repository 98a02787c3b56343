"""Which runs are waits, and how long they are."""

from __future__ import annotations

import pytest

from otel_loopguard import Outcome, ToolCall
from otel_loopguard.engine.history.waits import seconds_named

from .test_clock import LONG, READ, Agent


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        ({"seconds": 30}, [30]), ({"timeout_ms": 5_000}, [5]), ({"time": "2.5 s"}, [2.5]),
        ({"command": "sleep 12; ls"}, [12]), ({"until": "noon", "poll": 4, "max": 9}, [4, 9]), ("30", [30]), ({}, []),
        ({"flag": True}, []), ({"n": -4}, []), (None, []), ({"n": float("inf")}, []), ({"n": float("nan")}, []),
    ],
)  # fmt: skip
def test_the_numbers_of_the_arguments_name_seconds(arguments, seconds):
    """From a thousand on they are milliseconds."""
    assert list(seconds_named(arguments)) == seconds


def read_between_waits(tool, arguments, ran, *, at_most=12):
    """Read and wait by turns. Return the read that is refused, None if none is."""
    agent, wait = Agent(), ToolCall(tool, arguments)
    for attempt in range(1, at_most + 1):
        if not agent.turn.begin(READ).runs:
            return attempt
        agent.turn.end(READ, Outcome(LONG))
        if agent.turn.begin(wait).runs:
            agent.now += ran
            agent.turn.end(wait, Outcome("done"))
    return None


@pytest.mark.parametrize(
    ("tool", "arguments", "ran"),
    [("sleep", {"seconds": 30}, 30.1), ("sleep", {"seconds": 30}, 0.0), ("t17", {"seconds": 30}, 30.1),
     ("bash", {"command": "sleep 5"}, 5.1), ("wait", {}, 0.0)],
)  # fmt: skip
def test_a_wait_gives_patience_to_what_is_read_after_it(tool, arguments, ran):
    """By its argument or its time; under any name, if it ran as long as its argument says."""
    assert read_between_waits(tool, arguments, ran, at_most=12) is None


@pytest.mark.parametrize(
    ("tool", "arguments", "ran"),
    [("sleep", {"seconds": 1}, 1.1), ("sleep", {"ms": 1_000}, 0.0), ("bash", {"command": "sleep 1"}, 1.1)],
)
def test_a_short_wait_is_none(tool, arguments, ran):
    """``sleep 1`` makes nothing patient."""
    assert read_between_waits(tool, arguments, ran, at_most=12) == 4


def test_a_command_that_turns_out_to_be_a_wait_weighs_as_one():
    """Its second run takes as long as it says, so it proves as little as that of a wait does."""
    agent, command, runs = Agent(), ToolCall("bash", {"command": "./follow", "seconds": 5}), []
    for seconds in (0, 5, 0):
        runs.append(agent.turn.begin(command).runs)
        agent.now += seconds
        agent.turn.end(command, Outcome(LONG))
    assert runs == [True, True, True]


@pytest.mark.parametrize(
    ("tool", "ran", "refused"), [("read_queue", 20.1, 20), ("receive_message", 20.1, 20), ("read_queue", 7, 9)]
)
def test_a_long_poll_has_the_patience_of_a_poll(tool, ran, refused):
    """It ran as long as one of its numbers says; one that ran shorter is a look that found nothing."""
    agent, call = Agent(), ToolCall(tool, {"most": 10, "wait_seconds": 20})
    for attempt in range(1, 30):
        if not agent.turn.begin(call).runs:
            assert attempt == refused
            return
        agent.now += ran
        agent.turn.end(call, Outcome({"messages": []}))
    pytest.fail("it was never refused")
