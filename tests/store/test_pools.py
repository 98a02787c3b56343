"""The connections of a store: kept for the next call, and made in the background."""

from __future__ import annotations

import asyncio
import threading

from tests.stack.harness.process import wait_until

EVENT = (b"operation", b"an event")


def append(store):
    return store.append("turn", [EVENT], epoch=b"", seen=0)


def others(server):
    """The connections to a server, but for the one that asks."""
    return server("CLIENT", "LIST").count(b"\n") - 1


def test_one_thread_uses_one_connection(start_server):
    server = start_server()
    store = server.store()
    assert all(append(store) for _ in range(20))
    assert others(server) == 1


def test_threads_that_append_at_the_same_time_have_a_connection_each(start_server):
    server = start_server()
    store, ready, replies = server.store(), threading.Barrier(4), []

    def work():
        ready.wait()
        replies.extend(append(store) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(replies)
    assert 1 <= others(server) <= 4


def test_a_connection_that_comes_too_late_serves_the_next_call(start_server):
    """As through a slow network: a connection takes more round trips than an append."""
    server = start_server()
    store = server.store(0.05)
    server.pause()
    assert append(store) is None
    assert asyncio.run(store.aappend("turn", [EVENT], epoch=b"", seen=0)) is None
    server.resume()
    wait_until("the connection is there", lambda: any(store._of_threads._idle.values()))
    assert append(store)
    assert store.failures == {"timeout": 2}
    assert others(server) == 1
