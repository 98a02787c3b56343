"""The query of a call, and queries that are similar."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.values.queries import query_of

PARAMETERS = [
    "query", "q", "search_query", "search_term", "term", "user_query", "natural_language_query", "question", "search",
    "sql", "text", "prompt", "keywords",
]  # fmt: skip


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_the_parameter_of_the_query_is_found(parameter):
    """With "auto", a parameter that usually holds a query is found by its name; a declared one is taken."""
    arguments = {"limit": "5", parameter: "  Refund-Policy? "}
    assert query_of(arguments, "auto") == query_of(arguments, parameter) == "refund policy"
    assert query_of(arguments, "limit") == "5"
    assert query_of(arguments, None) is None


def test_other_parameters_hold_no_query():
    """A call without such a parameter, or with no text in it, has no query."""
    assert query_of({"path": "a", "query": 7}, "auto") is None
    assert query_of("plain text", "auto") == "plain text"
