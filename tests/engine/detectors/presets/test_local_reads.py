"""local_reads: repeated look-ups are refused after a retry budget of 2."""

from __future__ import annotations

import logging

import pytest

import otel_loopguard as loopguard
from otel_loopguard.policy_files.load import load_preset

from .driver import Driven

GUARDED = ("read_file", "list_dir", "glob", "grep", "web_fetch", "web_search")
ERROR = "Error: repeated identical tool call blocked. Use the prior result or choose a different tool."


@pytest.mark.parametrize("tool", GUARDED)
def test_the_third_identical_call_is_refused(tool):
    """Two identical calls run, whatever they return; the third gets exactly this error."""
    driven = Driven("local_reads")
    assert [driven.runs(tool, {"path": "a"}) for _ in range(2)] == [True, True]
    assert driven(tool, {"path": "a"}).message == ERROR


def test_other_tools_are_not_guarded():
    """Tools that are not on the list are never refused."""
    driven = Driven("local_reads")
    assert all(driven.runs("exec", {"command": "make"}, result="same") for _ in range(40))


def test_other_arguments_have_a_budget_of_their_own():
    """Calls with different arguments are counted separately."""
    driven = Driven("local_reads")
    assert all(driven.runs("read_file", {"path": str(number % 5)}) for number in range(10))
    assert not driven.runs("read_file", {"path": "0"})


@pytest.mark.parametrize(
    ("tool", "same"),
    [
        ("read_file", [{"path": "a"}, {"path": " a"}, {"path": "a "}]),
        ("grep", [{"pattern": "x  y"}, {"pattern": "x y"}, {"pattern": " x y"}]),
        (
            "web_fetch",
            [{"url": "https://Example.com/A"}, {"url": "https://example.com/a"}, {"url": "HTTPS://example.com/a "}],
        ),
        ("web_search", [{"query": "Late orders"}, {"query": "late orders"}, {"query": " LATE  orders"}]),
    ],
)
def test_arguments_are_normalised(tool, same):
    """Blanks, and the case of a URL and of a query, make no other call."""
    driven = Driven("local_reads")
    assert [driven.runs(tool, arguments) for arguments in same] == [True, True, False]


def test_the_case_of_a_path_or_a_pattern_is_kept():
    """Two files, and two searches."""
    driven = Driven("local_reads")
    for name in ("readme", "README", "Readme"):
        assert driven.runs("read_file", {"path": name})
        assert driven.runs("grep", {"pattern": name})


def test_calls_between_do_not_refill_the_budget():
    """Other reads or a write in between do not allow a third equal read."""
    driven = Driven("local_reads")
    for _ in range(2):
        driven("read_file", {"path": "a"})
        driven("write_file", {"path": "a", "text": "x"})
    assert not driven.runs("read_file", {"path": "a"})


def test_the_refusal_is_logged_with_tool_mode_and_turn(caplog):
    """The warning has the tool, the mode, its limit and the turn, and no argument; the later refusal has no line."""

    def read_file(path):
        return f"text of {path}"

    loopguard.instrument(load_preset("local_reads").policy)
    try:
        guarded = loopguard.tool(read_file)
        with loopguard.turn(conversation_id="c"), caplog.at_level(logging.WARNING, "otel_loopguard"):
            answers = [guarded("SECRET") for _ in range(4)]
    finally:
        loopguard.uninstrument()
    assert answers == ["text of SECRET"] * 2 + [ERROR] * 2
    lines = [record.getMessage() for record in caplog.records]
    (refused,) = [line for line in lines if "read_file" in line]
    assert "for the 3rd time (generic_repeat, limit 3) [turn=" in refused
    assert not any("SECRET" in line for line in lines)


def test_refused_attempts_count_and_the_run_goes_on():
    """Every further attempt gets the same error, and the run is never ended."""
    driven = Driven("local_reads")
    answers = [driven("grep", {"pattern": "x"}) for _ in range(30)]
    assert [str(answer.action) for answer in answers] == ["None"] * 2 + ["block"] * 28
    assert {answer.message for answer in answers[2:]} == {ERROR}
    assert [answer.trip.count for answer in answers[2:]] == list(range(3, 31))


def test_nothing_is_said_beside_results():
    """The second identical call has no warning for the model."""
    driven = Driven("local_reads")
    for _ in range(2):
        driven("web_fetch", {"url": "a"})
        assert driven.nudge is None
