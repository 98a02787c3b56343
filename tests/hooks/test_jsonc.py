"""Settings of other programs are changed in the one place that is meant, and back again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.hooks.jsonc import appended, parsed, without

COMMENTED = """{
  // the model
  "model": "opus", /* not "sonnet" */
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [] },
    ],
  },
}
"""
OURS = {"hooks": [{"command": "ours"}]}


def is_ours(item: Any) -> bool:
    """True for the entry that the tests add."""
    return bool(item == OURS)


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("{}", ("a",), '{\n  "a": [\n    1\n  ]\n}'),
        ("", ("a",), '{\n  "a": [\n    1\n  ]\n}\n'),
        ('{"a": []}', ("a",), '{"a": [\n  1\n]}'),
        ('{"a": [0]}', ("a",), '{"a": [0, 1]}'),
        ('{"a": [0,]}', ("a",), '{"a": [0, 1,]}'),
        ('{\n    "b": 1\n}\n', ("a", "c"), '{\n    "b": 1,\n    "a": {\n      "c": [\n        1\n      ]\n    }\n}\n'),
    ],
)
def test_a_value_is_added_at_its_path(text: str, path: tuple[str, ...], expected: str) -> None:
    """What is missing is added, in the indentation of its neighbours."""
    assert appended(text, path, 1) == expected


def test_comments_order_and_commas_stay() -> None:
    """Only lines are added."""
    added = appended(COMMENTED, ("hooks", "PreToolUse"), OURS)
    lines = iter(added.splitlines())
    assert all(line in lines for line in COMMENTED.splitlines())  # in this order
    assert parsed(added).plain["hooks"]["PreToolUse"] == [{"matcher": "Bash", "hooks": []}, OURS]
    assert without(added, ("hooks", "PreToolUse"), is_ours) == COMMENTED


@pytest.mark.parametrize("text", ["{", "[", '{"a"}', '{"a": 1 2}', "{} x", "nothing", '{"a": "\n'])
def test_a_broken_file_is_named_by_its_line(text: str) -> None:
    """It is left as it is."""
    with pytest.raises(ValueError, match="line 1 is no JSON"):
        appended(text, ("a",), 1)


def test_another_form_is_not_changed() -> None:
    """A value where an object or a list should be is the user's."""
    with pytest.raises(ValueError, match=r"hooks is not an object"):
        appended('{"hooks": 1}', ("hooks", "a"), 1)
    with pytest.raises(ValueError, match=r"hooks\.a is not a list"):
        appended('{"hooks": {"a": {}}}', ("hooks", "a"), 1)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab"\\/{}[],: \n', max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
settings_of = st.dictionaries(st.sampled_from(["a", "b", "model"]), json_values, max_size=3)
hooks_of = st.dictionaries(st.sampled_from(["Pre", "Post", "Stop"]), st.lists(json_values, max_size=2), max_size=3)


@given(settings=settings_of, hooks=st.none() | hooks_of, indent=st.sampled_from([None, 0, 2, 4, "\t"]))
def test_what_is_added_can_be_read_and_taken_out_again(
    settings: dict[str, Any], hooks: dict[str, Any] | None, indent: Any
) -> None:
    """In settings of any form: only this item comes, and only this item goes."""
    before = dict(settings) if hooks is None else {**settings, "hooks": hooks}
    text = json.dumps(before, indent=indent)
    added = appended(text, ("hooks", "Pre"), OURS)
    expected = json.loads(text)
    expected.setdefault("hooks", {}).setdefault("Pre", []).append(OURS)
    assert parsed(added).plain == json.loads(added) == expected
    cleaned = json.loads(without(added, ("hooks", "Pre"), is_ours))
    kept = {key: value for key, value in before.items() if key != "hooks"}
    assert {key: value for key, value in cleaned.items() if key != "hooks"} == kept
    rest = {name: items for name, items in (hooks or {}).items() if name != "Pre" or items}
    assert {name: items for name, items in cleaned.get("hooks", {}).items() if items or name != "Pre"} == rest
