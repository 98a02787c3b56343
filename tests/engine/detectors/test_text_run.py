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


def written(copies, characters, **policy):
    """The trip of blocks that are being written: its mode, count, limit and action; None without."""
    turn = Guard(Policy(**policy)).turn()
    found = turn.compiled.trip_of_blocks(Blocks(copies, characters))
    trip = None if found is None else turn.writing(found)
    return None if trip is None else (trip.mode, trip.count, trip.limit, str(trip.action))


CUTS = {"text_run": {"action": "abort"}}


def test_a_stream_is_cut_only_if_the_policy_says_so():
    """At eight blocks and 2,000 characters; before that, and else, it is observed."""
    assert written(8, 2_000) == ("text_run", 8, 3, "observe")
    assert written(8, 2_000, modes=CUTS) == ("text_run", 8, 8, "abort")
    assert written(8, 1_999, modes=CUTS) == ("text_run", 8, 3, "observe")
    assert written(7, 9_000, modes=CUTS) == ("text_run", 7, 3, "observe")
    assert written(4, 900, modes={"text_run": {"action": "abort", "block": 4, "cut_characters": 800}})[3] == "abort"
    assert written(2, 900) is None


@pytest.mark.parametrize("policy", [{"action": "observe"}, {"action": "nudge"}, {"abort_after": 0}])
def test_a_policy_that_ends_no_run_cuts_no_stream(policy):
    """The ceiling of the policy is above that of the mode."""
    assert written(8, 2_000, modes=CUTS, **policy)[3] != "abort"
