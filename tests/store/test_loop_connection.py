"""Tasks of event loops: they share a connection, may be cancelled, and neither block nor outlive their loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref


async def add(store, key, name):
    reply = await store.aappend(key, [(name.encode(), b"event")], epoch=b"", seen=0)
    assert reply is not None, store.failures
    return [entry.op.decode() for entry in reply.entries]


def connections(server):
    gc.collect()  # those of other tests
    return server("CLIENT", "LIST").count(b" cmd=eval")


async def test_the_tasks_of_a_loop_share_one_connection(server, key):
    before = connections(server)
    store = server.store()
    replies = await asyncio.gather(*(add(store, key, f"{number}") for number in range(100)))
    assert sorted(map(len, replies)) == list(range(1, 101))
    assert connections(server) == before + 1


async def test_a_task_that_is_cancelled_leaves_no_reply_for_others(server, key):
    store = server.store()
    await add(store, key, "first")
    cancelled = [asyncio.ensure_future(add(store, f"{key}-other", f"{number}")) for number in range(5)]
    await asyncio.sleep(0)
    for task in cancelled:
        task.cancel()
    assert await add(store, key, "second") == ["first", "second"]
    assert await asyncio.gather(*cancelled, return_exceptions=True)
    assert not store.failures


async def test_a_task_that_is_cancelled_while_it_connects_leaves_the_connection_to_others(server, key):
    store = server.store()
    first, second = (asyncio.ensure_future(add(store, key, name)) for name in ("first", "second"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == ["second"]


def test_each_loop_has_a_connection_of_its_own(server, key):
    store, ready = server.store(), threading.Barrier(4)

    async def main(number):
        ready.wait()
        for count in range(50):
            await add(store, f"{key}-{number}", f"{count}")

    threads = [threading.Thread(target=lambda n=number: asyncio.run(main(n))) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not store.failures
    assert len(store.append(f"{key}-3", [], epoch=b"", seen=0).entries) == 50


def test_a_connection_ends_with_its_loop(server, key):
    before = connections(server)
    store, loops = server.store(), []

    async def main():
        await add(store, key, f"{len(loops)}")
        loops.append(weakref.ref(asyncio.get_running_loop()))

    for _ in range(3):
        asyncio.run(main())
    gc.collect()
    assert [loop() for loop in loops] == [None] * 3
    assert connections(server) == before


async def test_a_loop_that_was_blocked_takes_a_reply_for_no_time_out(server, key):
    """The reply has come in time; only the loop comes late to read it."""
    store = server.store(0.05)
    await add(store, key, "first")
    for name in ("second", "third"):
        waiting = asyncio.ensure_future(add(store, key, name))
        await asyncio.sleep(0)
        time.sleep(0.2)
        assert name in await waiting


async def test_a_long_event_is_sent_in_pieces(server, key):
    store = server.store()
    large = b"x" * 4_000_000
    replies = await asyncio.gather(
        *(store.aappend(key, [(b"%d" % number, large)], epoch=b"", seen=0) for number in range(2))
    )
    assert [len(entry.data) for entry in replies[1].entries] == [4_000_000] * 2


def test_a_loop_without_readers_uses_a_thread(server, key):
    """As the default loop of Windows."""

    class Loop(asyncio.SelectorEventLoop):
        def add_reader(self, *_):
            raise NotImplementedError

    loop, store = Loop(), server.store()
    assert loop.run_until_complete(add(store, key, "first")) == ["first"]
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert not store.failures
