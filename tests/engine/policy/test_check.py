"""Every mistake in a policy is reported at once: setting, place, value, remedy."""

from __future__ import annotations

import pytest

from otel_loopguard.errors import PolicyError
from otel_loopguard.policy_files.load import load_file, load_text

FIVE = """
action = "blok"
abort_afer = 2

[modes.generic_repeat]
block = -3

[modes.generic_repet]
nudge = 1

[tools."read_[a"]
cap = true
"""


def told(text: str) -> list[str]:
    return [str(problem) for problem in load_text(text, "loop.toml").problems]


def test_five_mistakes_are_five_messages():
    """Each mistake is reported with its line, its value and the remedy."""
    action, abort_after, block, mode, pattern, cap = told(FIVE)
    assert action.startswith("loop.toml, line 2: action = 'blok': must be one of off, ")
    assert action.endswith("did you mean block?")
    assert abort_after == "loop.toml, line 3: abort_afer = 2: no such setting; did you mean abort_after?"
    assert block == "loop.toml, line 6: modes.generic_repeat.block = -3: must be a whole number, 0 or more."
    assert mode == "loop.toml, line 8: modes.generic_repet: no such mode; did you mean generic_repeat?"
    assert pattern.startswith('loop.toml, line 11: tools."read_[a": must be a glob')
    assert cap == 'loop.toml, line 12: tools."read_[a".cap = true: must be a whole number, 0 or more.'


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("modes = 3", "must be a table"),
        ("[modes]\ngeneric_repeat = 3", "must be a table: [modes.generic_repeat]"),
        ("tools.x = 3", 'must be a table: [tools."x"]'),
        ("tools.x.modes = 3", "must be a table"),
        ("tools.x.kind = 'reader'", "did you mean read?"),
        ("tools.x.kindd = 'read'", "did you mean kind?"),
        ("tools.x.volatile = 'a'", "a list of texts"),
        ("tools.x.route = { name = 'x' }", "a table { tool = parameter"),
        ("tools.x.modes.cycle.max_period = 99", "from 2 to 32"),
        ("modes.cycle.similarity = 0.5", "it is one of similar_query"),
        ("modes.similar_query.similarity = 75", "a number from 0 to 1"),
        ("modes.poll_no_progress.patience = inf", "a number of seconds"),
        ("words.reed = ['x']", "did you mean read?"),
        ("sentences.cycle = '{tol}'", "may hold tool, count"),
        ("sentences.cycle = 'a { b'", "other braces are doubled"),
        ("sentences.cicle = 'x'", "did you mean cycle?"),
        ("sentences.cycle.nudg = 'x'", "did you mean nudge?"),
        ("order = ['cicle']", "did you mean cycle?"),
        ("preset = 'chat_trun'", "did you mean chat_turn?"),
        ("preset = ['x']", "no such preset"),
        ("hash_key = 'SECRET'", "OTEL_PYTHON_LOOPGUARD_HASH_KEY"),
        ("on_trip = 'f'", "only be given in code"),
        ("refusal = true", "one of json, mode, text"),
        ("window = '1m'", "a number of seconds"),
        ("action = ", "this is not TOML"),
    ],
)
def test_each_kind_of_mistake_has_its_remedy(text, remedy):
    """A wrong key, value, type or pattern is one problem, with a remedy."""
    (message,) = told(text)
    assert remedy in message
    assert "SECRET" not in message


def test_the_line_is_right_in_difficult_texts():
    """Long strings, comments, dotted keys, quotes and inline tables do not confuse the line."""
    text = '''# action = 1
[sentences]
cycle = """
[modes.cycle]
block = 1
"""
[tools]
"a.b" = { cap = -1 }
[ modes . "cycle" ]   # a comment
block = "x"
'''
    assert [message.split(":")[0] for message in told(text)] == ["loop.toml, line 8", "loop.toml, line 10"]


def test_a_mistake_in_code_is_an_error_with_all_of_them():
    """``checked()`` of a wrong text raises an exception that lists every mistake."""
    with pytest.raises(PolicyError, match="6 problems") as raised:
        load_text(FIVE, "loop.toml").checked("loop.toml")
    assert len(raised.value.problems) == 6


def test_a_file_that_is_not_there(tmp_path):
    """A missing file and one that is not text are mistakes like others."""
    assert "No such file" in str(load_file(str(tmp_path / "none.toml")).problems[0])
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in str(load_file(str(tmp_path / "binary.toml")).problems[0])
