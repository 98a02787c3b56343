"""Any value becomes bytes that depend on what it says, not on how it was written down."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.core.values.canonical import canonical
from otel_loopguard.core.values.fingerprint import Fingerprinter
from otel_loopguard.core.values.walker import walk

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def shuffled(value):
    """The same value with the keys of every dictionary the other way round."""
    if isinstance(value, dict):
        return {key: shuffled(item) for key, item in reversed(value.items())}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(max_size=8), PLAIN, min_size=1, max_size=5), st.booleans())
def test_the_fast_way_and_the_writer_agree(value, fold):
    """What orjson writes of a plain value is what our own writer writes of it."""
    assert canonical(value, fold_blanks=fold) == walk(value, fold_blanks=fold)


@given(PLAIN, st.booleans())
def test_the_order_of_keys_does_not_matter(value, fold):
    """``{a, b}`` is ``{b, a}``, at every depth."""
    assert canonical({"it": value}, fold_blanks=fold) == canonical({"it": shuffled(value)}, fold_blanks=fold)


@given(st.dictionaries(st.text(max_size=8), PLAIN, min_size=1, max_size=4))
def test_json_text_is_its_object(value):
    """Arguments that come as JSON text are the object that the text says."""
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
def test_what_says_the_same_is_the_same(one, other):
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
def test_what_differs_stays_different(one, other):
    """Text of several lines keeps its blanks; types are told apart."""
    assert canonical(one) != canonical(other)


def test_tools_that_write_keep_their_blanks():
    """For them blanks are content, and JSON text is a text."""
    assert canonical({"text": "a  b"}, fold_blanks=False) != canonical({"text": "a b"}, fold_blanks=False)
    assert canonical({"text": '{"a":1, "b":2}'}, fold_blanks=False) != canonical(
        {"text": '{"b":2,"a":1}'}, fold_blanks=False
    )


def test_an_object_is_its_fields():
    """A dataclass says what the dictionary of its fields says."""

    @dataclasses.dataclass
    class Query:
        text: str
        limit: int

    assert canonical({"q": Query("x", 3)}) == canonical({"q": {"limit": 3, "text": "x"}})


def test_no_foreign_code_is_run():
    """Methods of an argument are never called, whatever they do."""

    class Hostile:
        def __init__(self):
            self.x = 1

        def __repr__(self):
            raise AssertionError("called")

        __str__ = __eq__ = __len__ = __iter__ = __bool__ = __repr__
        __hash__ = None

    assert canonical({"h": Hostile()}) == b'{"h":{"x":1}}'


@settings(max_examples=5, deadline=None)
@given(
    st.dictionaries(st.text(alphabet="abc \n", max_size=5), st.integers() | st.sets(st.text(max_size=3)), max_size=4)
)
def test_another_process_makes_the_same_fingerprint(value):
    """With the same key, and whatever the seed of Python's own hashes."""
    code = (
        "import sys; from otel_loopguard.core.values.fingerprint import Fingerprinter;"
        "print(Fingerprinter(b'k').arguments(eval(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, repr(value)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7", "PATH": ""})
    assert int(told.stdout) == Fingerprinter(b"k").arguments(value)
