"""A cell is changed only by who has seen its present version; the store in memory stays within its bounds."""

from __future__ import annotations

import asyncio

import pytest

from otel_loopguard.store.store import ANYTHING, MemoryStore, Newer, Swapped


def swap(store, key, seen, version=b"", state=b""):
    return asyncio.run(store.swap(key, seen, version, state))


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def store(clock):
    return MemoryStore(most=3, longest_idle=60.0, clock=lambda: clock[0])


def test_a_cell_is_begun_by_who_has_seen_none(store):
    assert swap(store, "turn", b"", b"version1", b"state") == Swapped(100.0, b"memory")
    assert swap(store, "turn", ANYTHING) == Newer(100.0, b"memory", b"version1", b"state")


def test_who_has_not_seen_the_present_version_gets_it_and_changes_nothing(store):
    swap(store, "turn", b"", b"version1", b"state")
    for seen in (b"", b"version0"):
        assert swap(store, "turn", seen, b"version2", b"other") == Newer(100.0, b"memory", b"version1", b"state")
    assert isinstance(swap(store, "turn", b"version1", b"version2", b"other"), Swapped)


def test_to_look_at_no_cell_makes_none(store):
    assert swap(store, "turn", ANYTHING) == Newer(100.0, b"memory", b"", b"")
    assert not store.cells


def test_the_cell_that_was_changed_least_recently_goes_first(store):
    for key in ("a", "b", "c"):
        swap(store, key, b"", b"version1", b"state")
    swap(store, "a", b"version1", b"version2", b"state")
    swap(store, "d", b"", b"version1", b"state")
    assert list(store.cells) == ["c", "a", "d"]


def test_a_cell_that_was_idle_for_too_long_is_none(store, clock):
    swap(store, "turn", b"", b"version1", b"state")
    clock[0] += 61.0
    assert swap(store, "turn", ANYTHING) == Newer(161.0, b"memory", b"", b"")
    swap(store, "other", b"", b"version1", b"state")
    assert list(store.cells) == ["other"]
