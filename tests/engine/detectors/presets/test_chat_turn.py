"""chat_turn: calls are skipped beyond their tool's cap, if they are equal to an earlier one, or similar to one."""

from __future__ import annotations

import pytest

from .driver import Driven

SEARCHES = ("search_knowledge", "semantic_search", "search_codebase", "smart_query_database", "query_database")
CAPS = {**dict.fromkeys(SEARCHES, 2), "composio_execute": 2, "read_file": 3, "write_file": 2, "list_directory": 2}
DIFFERENT = ("alpha beta gamma", "zulu yankee xray", "12345 monday rain", "qqqq wwww eeee")


@pytest.mark.parametrize(("tool", "cap"), [*CAPS.items(), ("anything_else", 3)])
def test_a_tool_runs_as_often_as_its_cap_allows(tool, cap):
    """Each tool runs up to its cap with different arguments; the next call is skipped with the limit in the text."""
    driven = Driven("chat_turn")
    assert all(driven.runs(tool, {"query": DIFFERENT[n]}) for n in range(cap))
    assert (
        driven(tool, {"query": DIFFERENT[cap]}).message
        == f"Tool '{tool}' has reached its execution limit ({cap}) for this turn"
    )


def test_the_second_identical_call_is_skipped_whatever_came_back():
    """Equal arguments are refused at the second call, whatever the results are."""
    driven = Driven("chat_turn")
    assert driven.runs("send_report", {"to": "a", "n": 1})
    assert driven("send_report", {"n": 1, "to": "a"}).message == (
        "Tool 'send_report' was already executed with identical parameters"
    )


@pytest.mark.parametrize("tool", SEARCHES)
def test_a_similar_query_is_skipped(tool):
    """A similar search is refused; the parameter with the query need not be declared."""
    driven = Driven("chat_turn")
    assert driven.runs(tool, {"query": "How do I reset my password?"})
    assert driven(tool, {"query": "how do I reset the password"}).message == (
        f"Tool '{tool}' was already executed with a similar query"
    )


def test_another_query_runs():
    """A query below the similarity of 0.75 runs."""
    driven = Driven("chat_turn")
    assert driven.runs("search_knowledge", {"query": "reset password"})
    assert driven.runs("search_knowledge", {"query": "invoice of last month"})


def test_other_tools_are_not_compared_by_similarity():
    """For other than the five search tools only exact repeats count."""
    driven = Driven("chat_turn")
    assert driven.runs("web", {"query": "how do I reset my password"})
    assert driven.runs("web", {"query": "how do I reset the password"})


def test_a_dangerous_word_makes_another_query():
    """Two queries that differ in a dangerous word are never similar."""
    driven = Driven("chat_turn")
    assert driven.runs("search_knowledge", {"query": "how to delete the user account"})
    assert driven.runs("search_knowledge", {"query": "how to disable the user account"})


def test_the_cap_is_looked_at_first():
    """The text for a repeat that is beyond its cap names the cap."""
    driven = Driven("chat_turn")
    driven("write_file", {"path": "a"})
    driven("write_file", {"path": "b"})
    assert "execution limit (2)" in str(driven("write_file", {"path": "a"}).message)


def test_the_exact_repeat_is_looked_at_before_the_similar_one():
    """The text for an equal query says that it is identical."""
    driven = Driven("chat_turn")
    driven("search_knowledge", {"query": "one and the same"})
    assert "identical parameters" in str(driven("search_knowledge", {"query": "one and the same"}).message)


def test_only_calls_that_ran_are_recorded():
    """Skipped calls use up no cap."""
    driven = Driven("chat_turn")
    assert driven.runs("read_file", {"path": "a"})
    assert [driven.runs("read_file", {"path": "a"}) for _ in range(5)] == [False] * 5
    assert driven.runs("read_file", {"path": "b"})
    assert driven.runs("read_file", {"path": "c"})
    assert not driven.runs("read_file", {"path": "d"})


def test_a_turn_begins_with_nothing():
    """In the next turn every call may be made again."""
    driven = Driven("chat_turn")
    driven("read_file", {"path": "a"})
    driven.next_turn()
    assert driven.runs("read_file", {"path": "a"})


def test_skipping_never_ends_the_run():
    """The run is never ended, however many calls are skipped."""
    driven = Driven("chat_turn")
    driven("tool", {"a": 1})
    assert {str(driven("tool", {"a": 1}).action) for _ in range(30)} == {"block"}


def test_the_gateway_counts_as_itself():
    """composio_execute has its cap of 2, whatever tool is behind it."""
    driven = Driven("chat_turn")
    assert driven.runs("composio_execute", {"tool_slug": "A", "arguments": {}})
    assert driven.runs("composio_execute", {"tool_slug": "B", "arguments": {}})
    assert not driven.runs("composio_execute", {"tool_slug": "C", "arguments": {}})


def test_nothing_is_said_beside_results():
    """There are no nudges, not even when a cap is nearly used up."""
    driven = Driven("chat_turn")
    for name in "abc":
        driven("read_file", {"path": name})
        assert driven.nudge is None


def test_a_skipped_query_is_not_recorded():
    """A query that is similar to a skipped one alone runs."""
    driven = Driven("chat_turn")
    assert driven.runs("search_knowledge", {"query": "alpha beta gamma delta"})
    assert not driven.runs("search_knowledge", {"query": "alpha beta gamma omega"})
    assert driven.runs("search_knowledge", {"query": "xxxxx beta gamma omega"})


def test_a_call_that_failed_has_run():
    """A failure is recorded like a result: the same call and a similar query are skipped."""
    driven = Driven("chat_turn")
    assert driven.runs("search_knowledge", {"query": "reset the password"}, error="no connection")
    assert not driven.runs("search_knowledge", {"query": "reset the password"})
    assert not driven.runs("search_knowledge", {"query": "reset a password"})


@pytest.mark.parametrize("name", ["query", "q", "search_query", "question", "search", "text", "prompt", "keywords"])
def test_the_parameter_with_the_query_is_found(name):
    """Its name need not be declared; other parameters are not compared."""
    driven = Driven("chat_turn")
    assert driven.runs("semantic_search", {name: "how do I reset my password", "page": "first of all pages"})
    assert driven("semantic_search", {name: "how do I reset the password", "page": "z"}).message == (
        "Tool 'semantic_search' was already executed with a similar query"
    )


@pytest.mark.parametrize(("length", "skipped"), [(15, True), (14, False)])
def test_the_similarity_is_three_quarters(length, skipped):
    """15 letters of 20 in common are similar, 14 of 19 are not."""
    common = "abcdefghijklmnop"[:length]
    driven = Driven("chat_turn")
    assert driven.runs("query_database", {"query": common + "qrstu"})
    assert driven.runs("query_database", {"query": common + "VWXYZ"}) is not skipped


def test_every_tool_may_have_its_own_cap():
    """A policy over the preset changes the cap of one tool, and the sentence has its number."""
    driven = Driven("chat_turn", "[tools.read_file]\ncap = 1\n")
    assert driven.runs("read_file", {"path": "a"})
    assert (
        driven("read_file", {"path": "b"}).message
        == "Tool 'read_file' has reached its execution limit (1) for this turn"
    )
    assert driven.runs("list_directory", {"path": "a"})
