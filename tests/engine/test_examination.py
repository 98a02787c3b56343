"""The examinations of benchmarks/exam: their traces are fair, and the default policy keeps its floors on the older."""

from __future__ import annotations

import pytest

from benchmarks.exam import families, play
from benchmarks.exam.names import NAMINGS
from benchmarks.exam.trace import FAMILIES, Call, Family, Trace, trace
from tests.engine.judges.seed import SEED


@pytest.fixture(scope="module")
def rows() -> list[play.Row]:
    """All older families under all namings, from one seed: a floor that moved with the seed would be no floor."""
    return play.rows(families.draw(NAMINGS, [0]))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_a_trace_differs_only_in_names_between_namings(family):
    """Texts and times depend on the seed, tools on the naming; the same seed draws the same trace again."""
    one, other = (trace(family.name, naming, SEED) for naming in ("natural", "opaque"))
    assert [call._replace(tool="") for call in one.calls] == [call._replace(tool="") for call in other.calls]
    assert one == trace(family.name, "natural", SEED)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_a_family_is_long_enough_for_its_verdict(family):
    """A stuck agent goes on beyond the call at which it must be refused, and is told before that."""
    calls = trace(family.name, "natural", SEED).calls
    assert [call.begin for call in calls] == sorted(call.begin for call in calls)
    assert family.stuck == (family.told > 0)
    if family.stuck:
        assert family.told <= (family.refused or len(calls)) <= len(calls)


@pytest.mark.parametrize("naming", NAMINGS)
def test_most_stuck_agents_are_stopped_and_few_working_ones_refused(rows, naming):
    """Floors, not figures: the figures are in docs/accuracy.md."""
    figures = play.figures(row for row in rows if row.naming == naming)
    assert figures.stopped >= 0.75 * figures.stuck, figures
    assert figures.told >= 0.65 * figures.stuck, figures
    assert figures.refused <= 0.12 * figures.legit, figures


def test_no_working_agent_is_ended(rows):
    """A working agent is refused a call now and then, but its run goes on."""
    ended = [row for row in rows if not row.family.stuck and row.ended]
    assert not ended, [(row.family.name, row.naming) for row in ended]


class Saying:
    """A judge that has these actions, by the number of the call; a nudge comes with the result."""

    def __init__(self, actions: dict[int, str], *, ends_at: int = 0) -> None:
        self.actions, self.ends_at, self.asked, self.called = actions, ends_at, 0, 0

    def thinks(self, thought, now):
        """Have the model answer in place of its message of this number."""
        self.asked += 1
        return self.asked == self.ends_at

    def begin(self, call, now):
        """Refuse this call, if its action is a refusal."""
        self.called += 1
        action = self.actions.get(self.called, "nudge")
        return None if action == "nudge" else (action, "mode")

    def end(self, call, outcome, now):
        """Nudge at this call."""
        return ("nudge", "mode") if self.actions.get(self.called) == "nudge" else None


def looks(results: str, *, stuck: bool) -> Trace:
    """Equal calls, one a message, with these results; each b is another call."""
    calls = [
        Call(at, 0.0, 10.0 * at, 1.0, "look", {"at": "b" if result == "b" else "a"}, result, None)
        for at, result in enumerate(results)
    ]
    return Trace(Family("looks", lambda run: None, stuck), "natural", 0, calls, frozenset({"look"}), False)


@pytest.mark.parametrize("action", ["nudge", "block"])
def test_a_stuck_model_that_heeds_gives_up(action):
    """It makes no call after the sentence, whatever call that would be; the deaf one makes all of them."""
    drawn = looks("aaabaa", stuck=True)
    row = play.play(drawn, Saying({3: action}), heeds=1.0)
    assert (row.left, row.gave_up, row.stop) == ([4, 5, 6], True, 3)
    deaf = play.play(drawn, Saying({3: action}))
    assert (deaf.left, deaf.stop) == ([], 3 if action == "block" else float("inf"))


def test_calls_of_one_message_are_made_whatever_the_model_heeds():
    """They were written before the sentence was read."""
    drawn = looks("aaa", stuck=False)
    drawn.calls = [call._replace(step=0) for call in drawn.calls]
    assert play.play(drawn, Saying({1: "block"}), heeds=1.0).left == []


def test_a_working_model_that_heeds_leaves_out_equal_calls():
    """Other calls are made; what would have been new at a call that is left out, is lost."""
    row = play.play(looks("aaabac", stuck=False), Saying({3: "nudge"}), heeds=1.0)
    assert (row.left, play.figures([row]).lost) == ([5, 6], 1)
    assert play.figures([play.play(looks("aaabaa", stuck=False), Saying({3: "nudge"}), heeds=1.0)]).lost == 0


def test_a_refusal_withholds_news_if_no_equal_call_had_the_result():
    """A result that only a refused call would have had is still news at the next."""
    row = play.play(looks("aabcc", stuck=False), Saying({2: "block", 4: "block", 5: "block"}))
    assert [trip.call for trip in row.withheld] == [4, 5]


@pytest.mark.parametrize(("results", "before"), [("aabac", []), ("aabca", [2]), ("acbaa", [2])])
def test_a_nudge_is_before_news_if_its_call_or_the_next_equal_one_is_new(results, before):
    """The second call is nudged; what a call with other arguments returns does not count."""
    row = play.play(looks(results, stuck=False), Saying({2: "nudge"}))
    assert [trip.call for trip in row.before_news] == before


def test_a_model_that_has_to_answer_makes_no_call_any_more():
    """Such a run is ended, and nobody gave up."""
    row = play.play(looks("aaaa", stuck=False), Saying({}, ends_at=3))
    assert (row.left, row.ended, row.gave_up) == ([3, 4], True, False)


@pytest.mark.parametrize("family", families.ANEW)
def test_a_pace_of_thought_changes_times_alone(family):
    """Under each pace a trace has the same calls, and the thought before each is within the pace."""
    fast, slow = (trace(family, "natural", SEED, pace) for pace in ((1, 4), (10, 60)))
    assert [call[3:] for call in fast.calls] == [call[3:] for call in slow.calls]
    assert all(10 <= call.thought <= 60 for call in slow.calls)
    assert slow.calls[-1].begin > fast.calls[-1].begin
