"""A dictionary that forgets its oldest item when it is full."""

from __future__ import annotations

from otel_loopguard.engine.history.bounded import EMPTY, kept


def test_the_oldest_item_is_forgotten_for_a_new_one():
    """And not for one that is there, whose place stays."""
    items = EMPTY
    for key in "abacb":
        items = kept(items, key, 2)
    assert list(items) == ["b", "c"]


def test_a_key_has_its_latest_value():
    items = kept(kept(EMPTY, "a", 2, 1), "a", 2, 2)
    assert items == {"a": 2}


def test_the_empty_dictionary_that_all_share_stays_empty():
    kept(EMPTY, "a", 2)
    assert EMPTY == {}
