"""The store under faults: each is the answer None, counted by its kind, logged once, and ends with its cause."""

from __future__ import annotations

import asyncio
import itertools

import pytest

_names = (f"turn-{number}" for number in itertools.count())
EVENT = (b"operation", b"an event")


@pytest.fixture
def key():
    return next(_names)


def append(store, key, *ops):
    return store.append(key, ops or [EVENT], epoch=b"", seen=0)


async def aappend(store, key, *ops):
    return await store.aappend(key, ops or [EVENT], epoch=b"", seen=0)


def both(store, key):
    """The answers to a thread and to a task, which are None if the store cannot be used."""
    return append(store, key), asyncio.run(aappend(store, key))


def test_threads_and_tasks_append_to_the_same_log(server, key):
    store = server.store()
    sync = append(store, key, (b"1", b"of a thread"))
    task = asyncio.run(aappend(store, key, (b"2", b"of a task")))
    assert [entry.data for entry in task.entries] == [b"of a thread", b"of a task"]
    assert sync.epoch == task.epoch


def test_a_script_that_the_server_has_lost_is_sent_again(server, key):
    store = server.store()
    append(store, key)
    server("SCRIPT", "FLUSH")
    assert append(store, key) is not None
    server("SCRIPT", "FLUSH")
    assert asyncio.run(aappend(store, key)) is not None
    assert not store.failures


def test_a_killed_server_is_a_connection_that_cannot_be_made(make_server, key):
    server = make_server()
    store = server.store()
    append(store, key)
    server.kill()
    assert both(store, key) == (None, None)
    assert store.failures == {"connection": 2}


def test_a_paused_server_is_a_time_out(make_server, key):
    server = make_server()
    store = server.store()
    append(store, key)
    server.pause()
    assert both(store, key) == (None, None)
    assert store.failures == {"timeout": 2}


def test_an_append_that_timed_out_but_was_applied_is_applied_once(make_server, key):
    server = make_server()
    store = server.store()
    append(store, key)
    server.pause()
    assert append(store, key, (b"late", b"an event")) is None
    server.resume()
    reply = append(store, key, (b"late", b"an event"))
    assert [entry.op for entry in reply.entries] == [b"operation", b"late"]
