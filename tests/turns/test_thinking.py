"""A turn is told each second of a model request once."""

from __future__ import annotations

import pytest

from otel_loopguard import Guard, Outcome, ToolCall
from otel_loopguard.turns.thinking import Thinking

READ, LIST = ToolCall("read_file", {"path": "a"}), ToolCall("list_files", {"path": "."})


class World:
    """A clock that is moved by hand, and a turn with one call that ended at 100."""

    def __init__(self):
        self.now = 100.0
        self.turn = Guard(clock=self.clock).turn()
        self.call(READ)

    def clock(self):
        """The time."""
        return self.now

    def call(self, call):
        """Make a call, which takes no time."""
        self.turn.begin(call)
        self.turn.end(call, Outcome("text"))

    def asked(self):
        """A model request that is sent now."""
        return Thinking(self.clock, self.turn)

    @property
    def thought(self):
        """The seconds that the turn was told, as far as they count."""
        return self.turn.current.history.thought


@pytest.fixture
def world():
    """A turn that has made a call."""
    return World()


def test_a_reply_tells_the_seconds_since_it_was_asked_for(world):
    """Not those before."""
    world.now = 130.0
    asked = world.asked()
    world.now = 150.0
    asked.end()
    assert world.thought == 20.0


def test_a_second_end_tells_nothing(world):
    """As when the reading of a stream goes on after its end."""
    asked = world.asked()
    world.now = 120.0
    asked.end()
    world.now = 150.0
    asked.end()
    asked.leave()
    assert world.thought == 20.0


def test_a_reply_that_was_left_tells_the_seconds_until_its_last_piece(world):
    """The program broke off, and then waited."""
    asked = world.asked()
    world.now = 112.0
    asked.go_on()
    world.now = 160.0
    asked.leave()
    assert world.thought == 12.0


def test_a_reply_that_was_thought_to_be_left_tells_the_rest_at_its_end(world):
    """An equal request was sent while it came."""
    asked = world.asked()
    world.now = 112.0
    asked.go_on()
    asked.leave()
    world.now = 120.0
    asked.end()
    assert world.thought == 20.0


def test_a_request_without_a_reply_is_not_left(world):
    """Nobody knows how much of the time was thought."""
    asked = world.asked()
    world.now = 160.0
    asked.leave()
    assert world.thought == 0.0


def test_a_reply_that_was_left_before_a_call_tells_nothing(world):
    """The call has ended the pause in which the model thought."""
    asked = world.asked()
    world.now = 112.0
    asked.go_on()
    world.call(LIST)
    world.now = 160.0
    asked.leave()
    assert world.thought == 0.0


def test_the_end_of_a_stream_whose_call_has_run_tells_what_came_after_the_call(world):
    """A framework dispatches a call before the stream has ended: a wait before the request stays one."""
    world.now = 130.0
    asked = world.asked()
    world.now = 140.0
    world.call(LIST)
    world.now = 142.0
    asked.end()
    assert world.thought == 2.0


@pytest.mark.parametrize(
    ("sent", "ended", "thought"), [(130.0, 150.0, 20.0), (140.0, 170.0, 40.0), (150.0, 160.0, 30.0)]
)
def test_requests_of_one_turn_that_overlap_count_their_time_once(world, sent, ended, thought):
    """The wait before them stays one, however many there are."""
    world.now = 130.0
    first = world.asked()
    world.now = sent
    second = world.asked()
    world.now = 150.0
    first.end()
    world.now = ended
    second.end()
    assert world.thought == thought
