"""Thinking is not waiting, except for what changes by itself."""

from __future__ import annotations

import math

import pytest

from otel_loopguard import Guard, Outcome, Policy, ToolCall

READ = ToolCall("read_file", {"path": "a"})
POLL = ToolCall("get_status", {"job": 7})
OPAQUE = ToolCall("t17", {"job": 7})
LONG = "a text that is long enough to be the answer to a question, and not to be the receipt of an act"


class Agent:
    """An agent with a clock of its own, whose model thinks before each call."""

    def __init__(self):
        self.now = 1_000.0
        self.turn = Guard(Policy(hash_key=b"k" * 32), clock=lambda: self.now).turn()

    def refused_at(self, call, result=LONG, *, thought=0.0, pause=0.0, told=None, at_most=100):
        """Make one call again and again. Return the attempt that is refused, None if none is."""
        for attempt in range(1, at_most + 1):
            self.now += thought + pause
            self.turn.thought(thought if told is None else told)
            if not self.turn.begin(call).runs:
                return attempt
            self.now += 0.5
            self.turn.end(call, Outcome(result))
        return None


@pytest.mark.parametrize("thought", [0.0, 2.0, 12.0, 40.0, 3_600.0])
def test_a_slow_model_is_refused_as_early_as_a_quick_one(thought):
    """A file that is read again and again is refused at the third time, however long the model thinks."""
    assert Agent().refused_at(READ, thought=thought) == 3


def test_a_pause_that_is_no_thought_is_a_wait():
    """If no model request is seen, 40 seconds between two reads are a wait."""
    assert Agent().refused_at(READ, pause=40.0) > 10


@pytest.mark.parametrize(("call", "result"), [(POLL, "still at it"), (OPAQUE, "status: pending")])
def test_a_poll_and_a_pending_result_may_change_while_the_model_thinks(call, result):
    """The job goes on meanwhile: thirty checks with a minute of thought in between are all made."""
    assert Agent().refused_at(call, result, thought=60.0, at_most=30) is None


def test_thought_and_pause_are_told_apart():
    """Of a minute between two reads, 55 seconds were thought: the rest is too short for a wait."""
    assert Agent().refused_at(READ, thought=55.0, pause=5.0) == 3


@pytest.mark.parametrize("absurd", [-40.0, 0.0, math.nan, 1e9, math.inf, -math.inf])
def test_absurd_seconds_count_as_no_thought(absurd):
    """Negative ones, no number, and more than a day."""
    assert Agent().refused_at(READ, thought=40.0, told=absurd) == Agent().refused_at(READ, pause=40.0)


def test_more_thought_than_time_has_passed_counts_as_that_time():
    """The request of a parallel call may have begun before the last call ended."""
    agent = Agent()
    assert agent.refused_at(READ, thought=40.0, told=90.0) == 3
    assert agent.turn.current.history.thought == 80.0


def test_requests_that_overlap_count_each_second_once():
    """Three layers of a program may tell of the same request."""
    agent = Agent()
    agent.refused_at(READ, at_most=1)
    agent.now += 50.0
    for _ in range(3):
        agent.turn.thought(20.0)
    assert agent.turn.current.history.thought == 20.0


def test_thought_before_the_first_call_counts_for_nothing():
    """No pause has begun."""
    agent = Agent()
    agent.turn.thought(50.0)
    assert agent.turn.current.history.thought == 0.0


def test_a_refusal_is_lifted_by_waiting_and_not_by_thinking():
    """A refused read that waits runs; one before which the model thought as long does not."""
    waited, thought = Agent(), Agent()
    assert waited.refused_at(READ) == thought.refused_at(READ) == 3
    waited.now += 60.0
    thought.now += 60.0
    thought.turn.thought(60.0)
    assert waited.turn.begin(READ).runs
    assert not thought.turn.begin(READ).runs


@pytest.mark.parametrize(("pause", "refused"), [(27.0, False), (20.0, True)])
def test_who_waits_as_long_as_a_result_asks_is_not_refused(pause, refused):
    """Nine tenths of the seconds are enough, also while the model thinks."""
    agent = Agent()
    found = agent.refused_at(READ, "429 Too Many Requests, retry after 30 s", thought=pause, at_most=40)
    assert (found is not None) == refused


def test_thought_is_in_the_bytes_of_a_turn():
    """A turn that was stored while the model thought goes on as one that was not."""
    agent, other = Agent(), Agent()
    agent.refused_at(READ, at_most=2)
    agent.now += 40.0
    agent.turn.thought(40.0)
    other.turn.restore(agent.turn.state())
    other.now = agent.now
    assert not agent.turn.begin(READ).runs
    assert not other.turn.begin(READ).runs
