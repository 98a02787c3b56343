"""``text_run``: observed at three equal blocks and 500 characters at the end of an answer."""

from __future__ import annotations

import pytest

from otel_loopguard import Guard, Policy
from otel_loopguard.engine.history.conversation_texts import ConversationTexts
from otel_loopguard.engine.history.text_blocks import Blocks


def observed(copies, characters, **policy):
    """The trip of a request whose last answer ends in such blocks: its mode, count, limit and action; None without."""
    texts, turn = ConversationTexts(), Guard(Policy(**policy)).turn()
    texts.said("key", 5_000, Blocks(copies, characters))
    texts.asked("go on")
    trip, again = turn.asking(texts), turn.asking(texts)
    assert again is None
    return None if trip is None else (trip.mode, trip.count, trip.limit, str(trip.action))


@pytest.mark.parametrize("copies", [3, 4, 50])
def test_three_blocks_are_observed_once(copies):
    """The count has no need to be a double of the limit: each answer is another one."""
    assert observed(copies, 900) == ("text_run", copies, 3, "observe")


@pytest.mark.parametrize(("copies", "characters"), [(2, 900), (30, 499)])
def test_fewer_or_shorter_blocks_are_left_alone(copies, characters):
    """A rule under a heading, the same word twice."""
    assert observed(copies, characters) is None


def test_the_policy_has_other_limits():
    """Blocks and characters, or none."""
    modes = {"text_run": {"nudge": 8, "characters": 2_000}}
    assert observed(8, 2_000, modes=modes) == ("text_run", 8, 8, "observe")
    assert observed(8, 1_999, modes=modes) is None
    assert observed(50, 9_000, modes={"text_run": {"action": "off"}}) is None
    assert observed(50, 9_000, modes={"text_run": {"nudge": 0}}) is None
