"""The turn of a conversation: the last one, for an hour, within bounds."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.user_messages import UserMessage
from otel_loopguard.guard.guard import Guard
from otel_loopguard.turns import last_turns
from otel_loopguard.turns.last_turns import IDLE_SECONDS, LastTurns


@pytest.fixture
def now() -> list[float]:
    """The time, to be set."""
    return [0.0]


@pytest.fixture
def known(now: list[float]) -> LastTurns:
    """LastTurns with a clock that is set by hand."""
    return LastTurns(lambda: now[0])


def test_the_last_turn_is_known_for_an_hour(known: LastTurns, now: list[float]) -> None:
    """A run that is resumed after more than an hour is a new turn."""
    turn = Guard().turn()
    known.started("c", turn)
    known.ended("c", turn)
    now[0] = IDLE_SECONDS
    assert known.last("c") is turn
    now[0] += IDLE_SECONDS + 1
    assert known.last("c") is None
    assert len(known) == 0


def test_a_turn_that_runs_is_never_idle(known: LastTurns, now: list[float]) -> None:
    """A tool may take longer than an hour."""
    turn = Guard().turn()
    known.started("c", turn)
    now[0] = 10 * IDLE_SECONDS
    assert known.last("c") is turn


def test_a_new_message_takes_the_place_of_what_is_over(known: LastTurns) -> None:
    """A new turn returns the earlier one for closing, unless that still runs or is the same."""
    guard = Guard()
    first, second, third = guard.turn(), guard.turn(), guard.turn()
    assert known.started("c", first) is None
    assert known.started("c", first) is None
    known.ended("c", first)
    assert known.started("c", second) is None, "the first one runs still, in one of its two runs"
    known.ended("c", second)
    assert known.started("c", third) is second


def test_old_conversations_are_forgotten_without_a_sweep(
    known: LastTurns, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle conversations are dropped as new ones start, and their number is bounded."""
    monkeypatch.setattr(last_turns, "MOST", 50)
    turn = Guard().turn()
    for number in range(200):
        known.started(f"c{number}", turn)
        known.ended(f"c{number}", turn)
    assert len(known) == 50
    now[0] = IDLE_SECONDS + 1
    for number in range(50):
        known.started(f"d{number}", turn)
    assert known.last("c199") is None
    assert len(known) == 50


def test_what_is_said_goes_to_the_turn_that_runs(known: LastTurns) -> None:
    """A message is delivered to the running turn, and not accepted after its end."""
    turn = Guard().turn()
    known.started("c", turn)
    word = known.say("c", "hello", stop=False)
    assert word
    assert turn.close() == ["hello"]
    assert word.returned
    known.forget("c", turn)
    assert not known.say("c", "hello", stop=False)


def test_a_word_says_what_became_of_it_and_not_what_it_is() -> None:
    """The ``repr`` of a message shows its state, and not its text."""
    assert repr(UserMessage("a secret")) == "UserMessage(taken=False, returned=True)"
