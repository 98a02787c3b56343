"""Fingerprints: equal for equal values, different for different ones, and never without the key."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_loopguard.engine.values.fingerprint import Fingerprinter
from tests.engine.values.strategies import shuffled

QUICK = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
KEY = b"0123456789abcdef"
PRINTS = Fingerprinter(KEY)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)
wild = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.binary(max_size=8)
    | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.one_of(st.text(max_size=4), st.integers(), st.none(), st.booleans()), inner, max_size=3)
    ),
    max_leaves=12,
)


@QUICK
@given(wild)
def test_any_value_has_a_stable_fingerprint(value):
    """Two fingerprints of one value are equal."""
    assert PRINTS.arguments(value) == PRINTS.arguments(value)
    assert PRINTS.result(value) == PRINTS.result(value)


@QUICK
@given(plain)
def test_the_order_of_keys_does_not_matter(value):
    """``{a, b}`` is ``{b, a}`` at every depth."""
    assert PRINTS.arguments(value) == PRINTS.arguments(shuffled(value))


@QUICK
@given(st.dictionaries(st.text(max_size=4), plain, min_size=1, max_size=3))
def test_json_text_is_its_object(value):
    """Arguments as JSON text have the fingerprint of the decoded object."""
    assert PRINTS.arguments(json.dumps(value)) == PRINTS.arguments(value)
    assert PRINTS.arguments(json.dumps(value, indent=2, ensure_ascii=False)) == PRINTS.arguments(value)


@QUICK
@given(plain, plain)
def test_different_values_have_different_fingerprints(one, other):
    """Values with different text have different fingerprints; True is not 1."""
    from tests.engine.reference import plain as judge

    same = judge.arguments_text(one, loose=False) == judge.arguments_text(other, loose=False)
    assert (PRINTS.arguments(one, fold_blanks=False) == PRINTS.arguments(other, fold_blanks=False)) == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"n": 1}, {"n": 1.0}),
        ({"q": " a  b\t"}, {"q": "a b"}),
        ({"sql": "select\n 1"}, {"sql": "select 1"}),
        ({"query": "a\r\nb"}, {"query": "a b"}),
        ("{'a': 1, 'b': None}", {"a": 1, "b": None}),
        ({"a": (1, 2)}, {"a": [1, 2]}),
    ],
)
def test_equal_arguments_have_equal_fingerprints(one, other):
    """Blanks and number types do not distinguish two calls if blanks are folded."""
    assert PRINTS.arguments(one) == PRINTS.arguments(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"n": 1}, {"n": True}),
        ({"n": 1}, {"n": "1"}),
        ({"n": None}, {}),
        ({"text": "a\n b"}, {"text": "a\nb"}),
        ({"q": "ab"}, {"q": "a b"}),
        ([1, [2]], [[1], 2]),
        ({"a": "b:c"}, {"a:b": "c"}),
        (b"a", "a"),
    ],
)
def test_unequal_arguments_have_unequal_fingerprints(one, other):
    """Values that differ for a tool have different fingerprints."""
    assert PRINTS.arguments(one) != PRINTS.arguments(other)


def test_writing_tools_keep_their_blanks():
    """Blanks that are kept are part of the content."""
    assert PRINTS.arguments({"text": "a  b"}, fold_blanks=False) != PRINTS.arguments({"text": "a b"}, fold_blanks=False)


def test_the_key_decides():
    """Another key gives other fingerprints."""
    assert Fingerprinter(KEY).arguments({"ssn": "1"}) != Fingerprinter(b"fedcba9876543210").arguments({"ssn": "1"})


def test_equal_across_processes():
    """One key gives equal fingerprints in two processes, for every hash seed."""
    value = {"b": [1, {"z": None, "a": "ü"}], "a": {"k": 1.5, "j": True}}
    code = (
        "import json, sys; from otel_loopguard.engine.values.fingerprint import Fingerprinter;"
        f"print(Fingerprinter({KEY!r}).arguments(json.loads(sys.argv[1])))"
    )
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code, json.dumps(value)],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        )
        assert int(run.stdout) == PRINTS.arguments(value)


@settings(max_examples=5, deadline=None)
@given(
    st.dictionaries(st.text(alphabet="abc \n", max_size=5), st.integers() | st.sets(st.text(max_size=3)), max_size=4)
)
def test_another_process_makes_the_same_fingerprint(value):
    """A value has an equal fingerprint in another process with this key, for every seed of Python's hashes."""
    code = (
        "import sys; from otel_loopguard.engine.values.fingerprint import Fingerprinter;"
        "print(Fingerprinter(b'k').arguments(eval(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, repr(value)]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7", "PATH": ""}
    )
    assert int(printed.stdout) == Fingerprinter(b"k").arguments(value)
