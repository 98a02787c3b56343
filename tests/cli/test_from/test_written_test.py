"""The file of tests is Python that a stranger reads: named tests, and repeats written as repeats."""

from __future__ import annotations

import ast

import pytest

from otel_loopguard.cli.test_from.recorded_loops import RecordedLoop
from otel_loopguard.cli.test_from.scripts import Script
from otel_loopguard.cli.test_from.written_test import names_of, text_of
from otel_loopguard.engine.vocabulary import Action, Trip
from otel_loopguard.testing import ScriptedCall

A, B = ScriptedCall("look", "a", "text A"), ScriptedCall("find", "b", "text B", pause=2.5)


def loop(*calls, tool="look", **more):
    """A loop with this script."""
    trip = Trip("generic_repeat", tool, len(calls), len(calls), Action.BLOCK, Action.BLOCK)
    return RecordedLoop("here", tool, trip, 9, Script(calls, **more))


def written(*loops, preset=None, policy=None):
    """The text of the tests."""
    return text_of(list(zip(names_of(loops), loops, strict=True)), preset, policy, "tests/test_loops.py")


@pytest.mark.parametrize(
    ("calls", "lines"),
    [
        ([A] * 3, 'script = [ScriptedCall("look", "a", "text A")] * 3\n'),
        (
            [A, B] * 2 + [A],
            '        *[ScriptedCall("look", "a", "text A"), ScriptedCall("find", "b", "text B", pause=2.5)] * 2,\n',
        ),
        ([A._replace(arguments=x) for x in "abcd"], '[ScriptedCall("look", letter, "text A") for letter in "abcd"]\n'),
        ([A], 'script = [ScriptedCall("look", "a", "text A")]\n'),
    ],
    ids=["repeat", "laps", "letters", "one"],
)
def test_repeats_are_written_as_such_and_mean_the_same_calls(calls, lines):
    """The script that Python reads is that of the loop."""
    text = written(loop(*calls))
    assert lines in text
    function = ast.parse(text).body[-1]
    assert eval(ast.unparse(function.body[1].value), {"ScriptedCall": ScriptedCall}) == calls


def test_names_are_unique_and_identifiers():
    """Names of tools may have any characters."""
    loops = [loop(A), loop(A), loop(A, tool="files/read-it"), loop(A, tool="_unknown:5f86ef44")]
    assert names_of(loops) == [
        "test_look_generic_repeat",
        "test_look_generic_repeat_2",
        "test_files_read_it_generic_repeat",
        "test_unknown_5f86ef44_generic_repeat",
    ]


def test_a_tool_name_cannot_end_a_text_of_the_file():
    """A recording from elsewhere is data: its names are never code."""
    name = 'x"""\nimport os\n\\'
    text = written(loop(A._replace(tool=name), tool=name))
    assert [type(node).__name__ for node in ast.parse(text).body] == ["Expr", "ImportFrom", "FunctionDef"]


def test_the_policy_file_is_found_from_the_tests():
    """Its path is relative to the file of tests, so that it is the same on each machine."""
    text = written(loop(A), policy="conf/loopguard.toml")
    assert 'POLICY = Path(__file__).parent / "../conf/loopguard.toml"\n' in text
    assert "assert_stopped(script, POLICY)" in text


def test_what_code_declared_and_the_guard_knew_is_said():
    """Kinds, tools that do not exist, and calls that had run are arguments."""
    text = written(loop(A, kinds=(("look", "poll"),), unknown=("made_up",), have_run=True))
    assert 'assert_stopped(script, kinds={"look": "poll"}, unknown=["made_up"], have_run=True)' in text
