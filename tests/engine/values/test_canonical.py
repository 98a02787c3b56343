"""Canonical bytes depend on a value, not on its notation."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.engine.values.canonical import canonical
from otel_loopguard.engine.values.normalise import Normaliser
from otel_loopguard.engine.values.walker import walk
from tests.engine.values.strategies import PLAIN, shuffled


@given(PLAIN, st.booleans())
def test_the_order_of_keys_does_not_matter(value, fold):
    """``{a, b}`` is ``{b, a}``, at every depth."""
    assert canonical({"it": value}, fold_blanks=fold) == canonical({"it": shuffled(value)}, fold_blanks=fold)


@given(st.dictionaries(st.text(max_size=8), PLAIN, min_size=1, max_size=4))
def test_json_text_is_its_object(value):
    """Arguments as JSON text have the bytes of the decoded object."""
    assert canonical(json.dumps(value)) == canonical(json.loads(json.dumps(value)))


@given(st.integers(-(10**15), 10**15))
def test_one_is_one_point_zero(number):
    """A whole float is the integer."""
    assert canonical({"n": number}) == canonical({"n": float(number)})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"q": "  find   it "}, {"q": "find it"}),
        ({"q": "a\tb"}, {"q": "a b"}),
        ({"sql": "select 1\n from x"}, {"sql": "select 1 from x"}),
        ("{'a': 1, 'b': [2]}", {"b": [2], "a": 1}),
        ({"inner": '{"b": 1, "a": 2}'}, {"inner": {"a": 2, "b": 1}}),
        (None, {}),
    ],
)
def test_notations_of_one_value_are_equal(one, other):
    """Blanks in single lines, line breaks in SQL, literals and nested JSON are folded."""
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"q": "a\n  b"}, {"q": "a\n b"}),
        ({"n": 1}, {"n": "1"}),
        ({"n": 1}, {"n": True}),
        ({"a": {}}, {"a": []}),
        ({"a": b"x"}, {"a": "x"}),
        ({"a": {1, 2}}, {"a": [1, 2]}),
    ],
)
def test_different_values_stay_different(one, other):
    """Text of several lines keeps its blanks, and types are distinct."""
    assert canonical(one) != canonical(other)


def test_tools_that_write_keep_their_blanks():
    """Blanks are content for a tool that writes, and JSON text is a text."""
    assert canonical({"text": "a  b"}, fold_blanks=False) != canonical({"text": "a b"}, fold_blanks=False)
    assert canonical({"text": '{"a":1, "b":2}'}, fold_blanks=False) != canonical(
        {"text": '{"b":2,"a":1}'}, fold_blanks=False
    )


PIECES = (
    "a", "b c", " ", "  ", "\t", "\n", "\r", '"', "\\", "[1]", "{}", "(", "('a',)", '{"b": 1, "a":2}', "1.0", "é",
    "\ud800",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
FLAT = TEXTS | st.integers(-(2**65), 2**65) | st.booleans() | st.none() | st.floats()
CONTAINERS = st.lists(FLAT, max_size=3) | st.tuples(FLAT) | st.dictionaries(TEXTS, FLAT, max_size=2)
KEYS = st.sampled_from(["path", "query", "sql", "a b", "[", '"', ""]) | st.integers(0, 3)


def walk_decoded(value):
    """Encode arguments with the walker; those that are one text are decoded before."""
    return walk(Normaliser().literal(value) if isinstance(value, str) else value, fold_blanks=True)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(KEYS, FLAT | CONTAINERS, min_size=1, max_size=4), st.booleans())
def test_the_quick_way_agrees_with_the_walker(value, fold):
    """Flat arguments have the bytes of the walker, which looks at every part."""
    assert canonical(value, fold_blanks=fold) == walk(value, fold_blanks=fold)


@given(st.dictionaries(st.text(max_size=8), PLAIN | TEXTS, max_size=4))
def test_json_text_in_an_argument_is_its_value(value):
    """JSON text, at any depth, has the bytes that the walker writes for it."""
    for text in (json.dumps(value), json.dumps({"inner": json.dumps(value)}, indent=1)):
        assert canonical({"text": text, "n": 1}) == walk({"text": text, "n": 1}, fold_blanks=True)
        assert canonical(text) == walk_decoded(text)


def test_json_text_of_many_levels_is_survived():
    """Text that is too deep to be written at once has the bytes of the walker."""
    text = "[" * 300 + "]" * 300
    assert canonical({"text": text}) == walk({"text": text}, fold_blanks=True)
    assert canonical(text) == walk_decoded(text)


@pytest.mark.parametrize("name", ["path", "query"])
def test_the_quick_look_misses_no_text_that_is_normalised(name):
    """Blanks, literals and, in a query, line breaks are found at each place of a text."""
    for pieces in itertools.product(PIECES, repeat=3):
        value = {name: "".join(pieces)}
        assert canonical(value) == walk(value, fold_blanks=True)
        for other in ({"n": [[]], **value}, {"n": json.dumps(value)}, json.dumps({"n": [[]], **value})):
            assert canonical(other) == walk_decoded(other)
