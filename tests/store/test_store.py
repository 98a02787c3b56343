"""A cell is changed only by who has seen its present version: the store of the other tests keeps that promise."""

from __future__ import annotations

import asyncio

import pytest

from otel_loopguard.store.store import READ_ONLY, Newer, Swapped
from tests.store.memory import FlakyStore


def swap(store, key, seen, version=b"", state=b""):
    return asyncio.run(store.swap(key, seen, version, state))


@pytest.fixture
def store():
    return FlakyStore(clock=lambda: 100.0)


def test_a_cell_is_begun_by_who_has_seen_none(store):
    assert swap(store, "turn", b"", b"version1", b"state") == Swapped(100.0, b"memory")
    assert swap(store, "turn", READ_ONLY) == Newer(100.0, b"memory", b"version1", b"state")


def test_who_has_not_seen_the_present_version_gets_it_and_changes_nothing(store):
    swap(store, "turn", b"", b"version1", b"state")
    for seen in (b"", b"version0"):
        assert swap(store, "turn", seen, b"version2", b"other") == Newer(100.0, b"memory", b"version1", b"state")
    assert isinstance(swap(store, "turn", b"version1", b"version2", b"other"), Swapped)


def test_to_look_at_no_cell_makes_none(store):
    assert swap(store, "turn", READ_ONLY) == Newer(100.0, b"memory", b"", b"")
    assert not store.cells
