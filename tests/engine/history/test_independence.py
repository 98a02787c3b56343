"""A tool after whose changes a result stays as it was is independent of it: 8 times for looks, 15 for all else."""

from __future__ import annotations

import pytest

from otel_loopguard import Action, Guard, Outcome, Policy, ToolCall
from otel_loopguard.engine.events import Gap
from otel_loopguard.engine.fold import fold
from tests.engine.detectors.driver import LONG

PLAIN = Policy(conclude_after=0, abort_after=0)


def alternate(turn, tool, *, rounds, result=lambda _: LONG, note="save_note"):
    """Make one call and a new note by turns. Return the actions of the call."""
    actions = []
    for number in range(rounds):
        call, written = ToolCall(tool, {"of": "a"}), ToolCall(note, {"text": f"thought {number}"})
        decision = turn.begin(call)
        actions.append(decision.action or Action.OBSERVE)
        if decision.runs:
            turn.end(call, Outcome(result(number)))
        if turn.begin(written).runs:
            turn.end(written, Outcome(f"saved as note {number}"))
    return actions


def first_refusal(actions):
    """Return the number of the first call that did not run, None if all ran."""
    return next((number for number, action in enumerate(actions, 1) if action >= Action.BLOCK), None)


@pytest.mark.parametrize(("tool", "refused"), [("read_page", 13), ("bash", 20)])
def test_a_call_between_new_notes_is_refused_once_it_is_known_to_be_independent_of_them(tool, refused):
    """A look at the 13th call, a command at the 20th. The model may insist on it, and is told so."""
    turn = Guard(PLAIN, clock=lambda: 0.0).turn()
    actions = alternate(turn, tool, rounds=refused)
    assert first_refusal(actions) == refused
    decision = turn.begin(ToolCall(tool, {"of": "a"}))
    assert decision.runs  # it insisted


def test_a_result_that_once_changed_after_a_note_is_never_independent_of_notes():
    """However often it stays the same after the next notes."""
    turn = Guard(PLAIN, clock=lambda: 0.0).turn()
    actions = alternate(turn, "read_page", rounds=60, result=lambda number: f"{LONG} {number > 3}")
    assert first_refusal(actions) is None


def test_only_tools_that_changed_something_since_the_last_run_matter():
    """The page was another one after an update, and that was long ago."""
    turn = Guard(PLAIN, clock=lambda: 0.0).turn()
    alternate(turn, "read_page", rounds=2, result=lambda number: f"{LONG} {number}", note="update_page")
    assert first_refusal(alternate(turn, "read_page", rounds=14, result=lambda _: f"{LONG} 1")) == 13


def test_a_change_by_a_tool_that_is_not_known_counts():
    """One write of another tool in between, and the look is made."""
    turn = Guard(PLAIN, clock=lambda: 0.0).turn()
    alternate(turn, "read_page", rounds=12)
    written = ToolCall("update_page", {"text": "new"})
    turn.begin(written)
    turn.end(written, Outcome("the page was updated"))
    assert turn.begin(ToolCall("read_page", {"of": "a"})).runs


def test_an_agent_that_takes_notes_between_equal_looks_is_ended():
    """News by an independent tool takes no refusal back."""
    turn = Guard(Policy(), clock=lambda: 0.0).turn()
    assert Action.ABORT in alternate(turn, "read_page", rounds=60)


def test_what_was_learned_is_in_the_bytes_of_a_turn():
    """A turn that was stored refuses the same call."""
    policy = Policy(hash_key=b"k" * 32, conclude_after=0, abort_after=0)
    turn, other = (Guard(policy, clock=lambda: 0.0).turn() for _ in "ab")
    alternate(turn, "read_page", rounds=12)
    other.restore(turn.state())
    assert other.begin(ToolCall("read_page", {"of": "a"})).action is Action.BLOCK


def test_no_call_is_independent_of_lost_events():
    """However often the result was the same after them."""
    turn = Guard(PLAIN, clock=lambda: 0.0).turn()
    call = ToolCall("read_page", {"of": "a"})
    for _ in range(30):
        assert turn.begin(call).runs
        turn.end(call, Outcome(LONG))
        fold(turn.current, Gap(0), 0.0)
