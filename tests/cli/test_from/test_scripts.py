"""A script has letters for arguments, and words from which the guard reads what it read in the recorded results."""

from __future__ import annotations

import pytest

from otel_loopguard.cli.test_from.scripts import Detail, script_of
from tests.cli.replay.made import call

from .recordings import judged


def results(*recorded, tool="read_file", **detail):
    """The made-up results of one call that had these results."""
    calls = judged(*(call(tool, {"path": "SECRET"}, result) for result in recorded))
    return [one.result for one in script_of(calls, Detail(**detail)).calls]


@pytest.mark.parametrize(
    ("recorded", "made_up"),
    [
        (["x", "x", "y", "x"], ["text A", "text A", "text B", "text A"]),
        (["Error: x", "Error: x"], ["Error: A", "Error: A"]),
        (["Error 503: service unavailable"], ["Error 503: service unavailable, A"]),
        (["it is queued", "it is queued"], ["pending A", "pending A"]),
        (["[]"], ["no results"]),
        (["took 3.2s of x", "took 4.1s of x", "took 9.3s of x"], ["text A", "text B", "text B"]),
    ],
    ids=["equality", "error", "transient", "pending", "nothing found", "volatile"],
)
def test_a_result_has_the_words_that_matter(recorded, made_up):
    """Equal results are equal words; so are those that differ in a duration only, from the second difference on."""
    assert results(*recorded) == made_up


def test_a_result_is_long_where_its_length_matters():
    """Up to 80 bytes count as an acknowledgement."""
    (text,) = results("x" * 100, lengths=True)
    assert len(text) > 80
    assert results("x" * 100) == ["text A"]


def test_progress_stays_progress_and_noise_stays_noise():
    """Numbers rise in the one, and go to and fro in the other."""
    rising = results("5 of 90 rows", "6 of 90 rows", "7 of 90 rows", tool="get_status")
    assert rising == sorted(rising)
    noise = results("id 7 x", "id 2 x", "id 9 x", "id 1 x", "id 8 x", tool="get_status")
    assert noise != sorted(noise)
    assert {one.rpartition(" ")[0] for one in rising + noise} == {"text A, number"}


def test_arguments_are_letters_and_a_made_up_tool_is_a_hash():
    """No text of the recording is in a script but the names of tools that exist."""
    calls = judged(
        call("read_file", {"path": "SECRET 1"}, "SECRET"),
        call("SECRET", {"path": "SECRET 2"}, "Error: SECRET"),
        call("read_file", {"path": "SECRET 1"}, "SECRET"),
        tools=["read_file"],
    )
    script = script_of(calls, Detail(existence=True))
    assert [one.arguments for one in script.calls] == ["a", "b", "a"]
    assert "SECRET" not in str(script)
    assert script.unknown == (script.calls[1].tool,)


def test_times_are_pauses_and_durations_without_thought():
    """The seconds in which the model thought are no pause."""
    calls = judged(
        call("look", {}, "x", at=100.0, ended=101.5),
        call("look", {}, "x", at=111.5, ended=112.0, thought=4.0),
        call("look", {}, "x"),
    )
    times = [(one.pause, one.took) for one in script_of(calls, Detail(times=True)).calls]
    assert times == [(0.0, 1.5), (6.0, 0.5), (0.0, 0.0)]
