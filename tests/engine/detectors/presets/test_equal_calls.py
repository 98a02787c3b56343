"""Presets count equal calls of any tool but a step. Arguments are equal if they are in every character."""

from __future__ import annotations

import pytest

from .driver import Driven

PRESETS = {
    "chat_turn": "any_tool",
    "recipe_step": "composio_x",
    "typed_window": "any_tool",
    "repeat_hint": "any_tool",
    "repeat_abort": "any_tool",
    "local_reads": "read_file",
}
IN_BLANKS = [
    ({"path": "a b"}, {"path": "a  b"}),
    ({"path": "a b"}, {"path": " a b"}),
    ({"query": "a\nb"}, {"query": "a b"}),
    ({"sql": "select 1\nfrom t"}, {"sql": "select 1 from t"}),
]
OTHER = [
    *IN_BLANKS,
    ({"path": "a", "request_id": "1"}, {"path": "a", "request_id": "2"}),
    ({"path": "a", "explanation": "to see"}, {"path": "a", "explanation": "to look"}),
    ({"path": "a", "reason": "first"}, {"path": "a", "reason": "second"}),
]


@pytest.mark.parametrize(("one", "other"), OTHER, ids=str)
@pytest.mark.parametrize("preset", PRESETS)
def test_arguments_that_differ_in_anything_are_not_identical(preset, one, other):
    """A call that was stopped for these arguments runs with the others. `local_reads` folds blanks."""
    driven, tool = Driven(preset, 'tools."*".cap = 99\n' if preset == "chat_turn" else ""), PRESETS[preset]
    while driven.runs(tool, one, result="same"):
        pass
    folds = preset == "local_reads" and (one, other) in IN_BLANKS
    assert driven.runs(tool, other, result="same") is not folds


@pytest.mark.parametrize("preset", PRESETS)
def test_the_order_of_the_keys_makes_no_difference(preset):
    """Equal objects are identical, however the model wrote them."""
    driven, tool = Driven(preset, 'tools."*".cap = 99\n' if preset == "chat_turn" else ""), PRESETS[preset]
    while driven.runs(tool, {"a": 1, "b": {"c": 2, "d": 3}}, result="same"):
        pass
    assert not driven.runs(tool, {"b": {"d": 3, "c": 2}, "a": 1}, result="same")


@pytest.mark.parametrize(("one", "other"), OTHER, ids=str)
def test_a_warning_is_for_identical_arguments(one, other):
    """turn_nudge warns of the third call with one set of arguments, not of the third in all."""
    driven = Driven("turn_nudge")
    warned = []
    for arguments in (one, other, one, other, one):
        driven("any_tool", arguments, result="same")
        warned.append(driven.nudge is not None)
    assert warned == [False] * 4 + [True]


NAMES = ("submit", "final_answer", "finish", "transfer_to_billing", "composio_finish")
LIMITS = {"chat_turn": 2, "repeat_hint": 4, "repeat_abort": 4, "typed_window": 5}


@pytest.mark.parametrize("preset", LIMITS)
@pytest.mark.parametrize("name", [*NAMES, "press_key", "get_job_status", "sleep"])
def test_any_tool_is_counted_whatever_it_is_called(preset, name):
    """The systems that the presets copy know no kinds; polls have a mode of their own in typed_window alone."""
    limit = 10 if preset == "typed_window" and name in {"get_job_status", "sleep"} else LIMITS[preset]
    driven = Driven(preset, 'tools."*".cap = 99\n' if preset == "chat_turn" else "")
    assert [driven.runs(name, {"a": 1}, result="same") for _ in range(limit)] == [True] * (limit - 1) + [False]


def test_turn_nudge_warns_of_any_tool():
    """The third equal hand-off is nudged like any other call."""
    driven = Driven("turn_nudge")
    for _ in range(3):
        driven("transfer_to_billing", {"a": 1})
    assert driven.nudge is not None


def test_two_agents_that_hand_over_to_each_other_alternate():
    """Hand-offs and final tools make laps like other calls."""
    driven = Driven("typed_window")
    assert [driven.runs(name) for name in ["transfer_to_a", "submit"] * 3] == [True] * 5 + [False]


def test_a_tool_declared_a_step_is_exempt():
    """Its equal calls are no loop, neither in a row nor in laps."""
    more = '[tools."press_*"]\nkind = "step"\n[modes.global_circuit_breaker]\nblock = 0\n'
    driven = Driven("typed_window", more)
    assert all(driven.runs("press_key", {"key": "a"}) for _ in range(40))
    assert all(driven.runs("press_key", {"key": key}) for key in "ab" * 20)


@pytest.mark.parametrize("kind", ["final", "handoff", "think", "read", "agent"])
def test_no_other_declared_kind_exempts(kind):
    """A tool of another kind is counted like any other."""
    driven = Driven("typed_window", f'[tools."to_*"]\nkind = "{kind}"\n')
    assert [driven.runs("to_a") for _ in range(5)] == [True] * 4 + [False]
