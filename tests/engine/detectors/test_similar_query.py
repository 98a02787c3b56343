"""``similar_query``: a declared query in other words, which brings nothing new. Told at the 3rd, refused at the 4th."""

from __future__ import annotations

from .driver import LONG, Driven

MODE = "similar_query"
TOOLS = {"search_docs": {"query": "auto"}}
QUERIES = ["title of the book", *(f"title of the book {more}" for more in ("please", "now", "again", "here", "today"))]
NOTHING = "No documents were found for this query."


def searched(driven, queries, result=NOTHING):
    return [driven("search_docs", result, query=query) for query in queries]


def test_it_is_told_at_the_3rd_and_refused_at_the_4th():
    """Nearly the same words, and the same answer."""
    driven = Driven(MODE, tools=TOOLS)
    decisions = searched(driven, QUERIES[:4])
    assert (driven.told(), driven.refused()) == ([3], [4])
    assert "This is query 3 of much the same wording; none brought anything the first did not." in decisions[2].message
    assert "3 queries much like this one were made with search_docs, and brought nothing new." in decisions[3].message


def test_the_model_can_insist_on_it():
    """The query was never made, so the guard may be wrong about it."""
    driven = Driven(MODE, tools=TOOLS)
    decision = searched(driven, QUERIES[:4])[3]
    assert decision.trip.insistable
    assert searched(driven, QUERIES[3:4])[0].runs


def test_it_is_opt_in():
    """Without a declared query no query is compared."""
    driven = Driven(MODE)
    searched(driven, QUERIES)
    assert driven.quiet


def test_queries_that_find_something_new_are_work():
    """The same words, and another page of results each time."""
    driven = Driven(MODE, tools=TOOLS)
    for number, query in enumerate(QUERIES):
        driven("search_docs", f"{LONG} {number}", query=query)
    assert driven.quiet


def test_other_questions_are_not_similar():
    """Nor are those that differ in a number or in a word that may do harm."""
    driven = Driven(MODE, tools=TOOLS)
    searched(driven, ["refund policy", "opening hours of the shop", "names of all cities", "who wrote this book"])
    searched(driven, [f"orders of the customer {number}" for number in range(5)])
    searched(driven, ["how to enable the account", "how to disable the account", "how to delete the account"])
    assert driven.quiet


def test_the_similarity_is_a_limit():
    """At 1 only equal sets of words are similar."""
    queries = [f"refund policy late {word}" for word in ("orders", "parcels", "letters", "gifts", "items")]
    driven = Driven(MODE, tools=TOOLS, modes={MODE: {"similarity": 0.5}})
    searched(driven, queries)
    assert driven.refused()
    driven = Driven(MODE, tools=TOOLS, modes={MODE: {"similarity": 1.0}})
    searched(driven, queries)
    assert driven.quiet
