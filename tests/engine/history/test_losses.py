"""A result that the model lost is no evidence, and reading and losing without end is a loop all the same."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.engine.history.losses import MOST_LOSSES, MOST_REREADS
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.vocabulary import Action, Decision, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from otel_loopguard.policy_files.load import load_preset
from tests.engine.judges.worlds import AGENTS, KINDS, TEXTS, world
from tests.engine.test_promises import QUICK

if TYPE_CHECKING:
    from otel_loopguard.guard.turn import Turn

LONGEST = 3_000
RUNS, NUDGE, BLOCK = None, Action.NUDGE, Action.BLOCK
A, B = ToolCall("read_file", {"path": "a"}), ToolCall("read_file", {"path": "b"})


def make(turn: Turn, call: ToolCall, result: str | None = None) -> Decision:
    """Make one call, with a result of its own that is the same each time."""
    call = ToolCall(*call[:2])
    decision = turn.begin(call)
    return turn.end(call, Outcome(result or f"the text of {call.arguments}")) if decision.runs else decision


def lose(turn: Turn, *calls: ToolCall) -> None:
    """Lose the latest results of these calls."""
    turn.lose([turn.key_of(call) for call in calls])


def actions(turn: Turn, call: ToolCall, times: int) -> list[Action | None]:
    """Return the actions for equal calls."""
    return [make(turn, call).action for _ in range(times)]


@pytest.mark.parametrize("before", range(1, 5))
def test_after_a_loss_a_call_is_judged_as_if_it_had_not_run(before: int) -> None:
    """Two more runs and then a refusal, however often it ran before."""
    turn = Guard().turn()
    actions(turn, A, before)
    lose(turn, A)
    assert [action is BLOCK for action in actions(turn, A, 3)] == [False, False, True]


def test_a_loss_of_one_call_is_none_of_another() -> None:
    """The result of the other call is still there."""
    turn = Guard().turn()
    actions(turn, A, 2)
    lose(turn, B)
    assert actions(turn, A, 1) == [BLOCK]


def test_a_lost_result_is_counted_once_until_the_call_is_made_again() -> None:
    """Each model request may name what is lost."""
    turn = Guard().turn()
    make(turn, A)
    for _ in range(30):
        lose(turn, A)
    assert actions(turn, A, 3) == [RUNS, NUDGE, BLOCK]


def test_a_call_that_never_ran_cannot_be_lost() -> None:
    """Keys of other turns, or of calls that were refused untried, change nothing."""
    turn = Guard().turn()
    state = turn.state()
    lose(turn, A)
    assert turn.state() == state


def test_a_lost_run_makes_no_lap() -> None:
    """Laps begin with the runs that the model can see."""
    turn = Guard(Policy(order=("ping_pong",))).turn()
    for call in (A, B, A, B):
        make(turn, call)
    lose(turn, A, B)
    seen = [make(turn, call).action for call in (A, B, A, B, A)]
    assert seen == [RUNS, RUNS, RUNS, RUNS, BLOCK]


def test_a_run_between_two_losses_hides_no_work_from_a_lap() -> None:
    """A lap needs equal calls in order: a run that was lost is not left out of the order."""
    turn = Guard().turn()
    x, y = ToolCall("read_file", {"path": "x"}), ToolCall("read_file", {"path": "y"})
    for call in (x, A, y, x, B, y):
        make(turn, call)
    lose(turn, A, B)
    assert make(turn, x).action is not BLOCK


def test_lost_runs_are_no_part_of_a_row_without_news() -> None:
    """Seven files are read once more after a loss, and the next known call is not the eighth without news."""
    turn = Guard().turn()
    files = [ToolCall("read_file", {"path": str(number)}) for number in range(9)]
    for call in files:
        make(turn, call)
    lose(turn, *files)
    assert [make(turn, call).action for call in files] == [RUNS] * 9
    assert make(turn, files[0]).trip.mode is not Mode.NO_NOVELTY


def test_a_lost_query_is_not_similar_to_itself() -> None:
    """Four queries much like it are refused, but not one whose result is lost."""
    turn = Guard(Policy(tools={"search": ToolContract(query="q")})).turn()
    calls = [ToolCall("search", {"q": f"how to bake sourdough bread{mark}"}) for mark in ("", "!", "?")]
    for call in calls:
        make(turn, call, "nothing was found for that")
    lose(turn, *calls)
    assert [make(turn, call, "nothing was found for that").action for call in calls] == [RUNS] * 3


def test_an_effect_that_must_happen_once_is_refused_all_the_same() -> None:
    """The model lost the result, but the effect has happened."""
    turn = Guard(Policy(tools={"pay": ToolContract(once=True)})).turn()
    call = ToolCall("pay", {"to": "b"})
    make(turn, call)
    lose(turn, call)
    assert make(turn, call).action is BLOCK


def test_counted_calls_are_forgotten_too() -> None:
    """A policy that counts calls does not refuse what was lost."""
    turn = Guard(load_preset("typed_window").policy).turn()
    call = ToolCall("read_file", {"path": "a"})
    assert [make(turn, call).runs for _ in range(6)][-1] is False
    lose(turn, call)
    assert make(turn, call).runs


def test_another_result_after_a_loss_is_news() -> None:
    """The file was changed by somebody else; so the refusals begin again."""
    turn = Guard().turn()
    actions(turn, A, 5)
    lose(turn, A)
    make(turn, A, "another text")
    assert orjson.loads(turn.state())["refusals"] == 0
    lose(turn, A)
    assert not make(turn, A).record.news


def test_the_third_loss_is_nudged() -> None:
    """And the sixth and the twelfth, like any nudge."""
    turn = Guard().turn()
    make(turn, A)
    seen = []
    for _ in range(13):
        lose(turn, A)
        seen.append(make(turn, A))
    assert [place for place, one in enumerate(seen, 1) if one.action is NUDGE] == [3, 6, 12]
    message = "You have read this 3 times and lost it to the context limit. Write down what you need."
    assert seen[2].message == f"[loopguard] {message}"
    assert (seen[2].trip.verdict, seen[2].trip.reason) == (NUDGE, "lost")


@pytest.mark.parametrize("calls", [1, 2, 3, 8, 9, 20, 50])
def test_reading_and_losing_without_end_is_nudged_and_ends(calls: int) -> None:
    """Whatever the number of the calls is that the agent reads in turn, each lost before it is read again."""
    turn, files = Guard().turn(), [ToolCall("read_file", {"path": str(number)}) for number in range(calls)]
    seen: list[Action | None] = []
    while Action.ABORT not in seen:
        lose(turn, *files)
        seen.append(make(turn, files[len(seen) % calls]).action)
        assert len(seen) < calls + 21 * min(calls, 3) + 5 * calls + 20
    assert seen.index(NUDGE) < seen.index(BLOCK) < seen.index(Action.CONCLUDE)


@QUICK
@given(st.integers(0, 10**9), st.sampled_from(AGENTS), st.data())
def test_a_call_whose_result_is_lost_is_not_refused_in_any_world(seed, agent, data):
    """Not as a repeat, in a lap, in a row or for the answers of its tool, whatever the agent did. Every run ends."""
    lives, turn = world(seed, KINDS, TEXTS), Guard().turn()
    going, refused, losses = agent(lives.rng, len(lives.calls)), None, Counter()
    ran, lost, rereads, losing = set(), set(), 0, data.draw(st.sampled_from([0.05, 0.3, 1.0]))
    for _ in range(LONGEST):
        try:
            index = going.send(refused)
        except StopIteration:
            return
        call = ToolCall(*lives.calls[index][:2])
        key, decision = turn.key_of(call), turn.begin(call)
        assert decision.runs or key not in lost
        if decision.action is Action.ABORT:
            return
        if decision.runs:
            turn.end(call, lives.act(index))
            rereads = 0 if decision.record.news else rereads + (key in lost)
            ran.add(key)
            lost.discard(key)
        refused = not decision.runs
        if lives.rng.random() < losing:
            turn.lose(ran)
            losses.update(ran - lost)
            lost |= {key for key in ran if losses[key] < MOST_LOSSES and rereads < MOST_REREADS}
    raise AssertionError(f"the run did not end in {LONGEST} calls")


def test_losses_are_in_the_bytes_of_a_turn() -> None:
    """A turn goes on from bytes with the losses that it had."""
    for losses in (1, 2, 3, 20):
        guard = Guard()
        whole, stored = guard.turn(), guard.turn()
        for _ in range(losses):
            make(whole, A)
            lose(whole, A)
        stored.restore(whole.state())
        assert actions(stored, A, 4) == actions(whole, A, 4)


def test_a_turn_that_loses_nothing_keeps_nothing() -> None:
    """Most turns lose nothing."""
    turn = Guard().turn()
    actions(turn, A, 12)
    assert orjson.loads(turn.state())["losses"] is None


def test_a_call_after_a_loss_did_not_run_in_vain() -> None:
    """The model needed the result again; the tokens of its request are not those of a loop."""
    turn = Guard().turn()
    make(turn, A)
    lose(turn, A)
    assert [make(turn, A).record.ran_in_vain for _ in range(2)] == [False, True]
