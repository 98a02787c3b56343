"""Under presets that count calls, arguments are identical if they are equal in every character. None is left out."""

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
