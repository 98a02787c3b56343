"""The quick way takes flat values alone, and no large ones."""

from __future__ import annotations

import tracemalloc

import pytest

from otel_loopguard.engine.values.fast_json import flat_text


def test_the_texts_of_a_flat_value_are_separated_from_each_other_and_from_both_ends():
    """A blank at an end of a text, or two in it, are two blanks in the whole."""
    assert flat_text({"a": "x y", "b": 1, "c": ["z", None], "d": {"e": "w"}}) == " x y z w "
    assert "  " in (flat_text({"a": "x ", "b": "y"}) or "")


@pytest.mark.parametrize("value", [{"a": 1.5}, {"a": [[]]}, {"a": b"x"}, {"a": {"b": {}}}, {"a": [1] * 501}])
def test_other_values_are_not_flat(value):
    """A float, a container in a container, an object, and many parts need a closer look."""
    assert flat_text(value) is None


def test_one_text_in_many_places_is_not_joined():
    """A hundred times a megabyte is not copied."""
    value = {"commands": ["x" * 1_000_000] * 100}
    tracemalloc.start()
    try:
        assert flat_text(value) is None
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
