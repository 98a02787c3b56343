"""Servers behind sentinels, and clusters: the log is found, also after a failover and while a cluster is changed."""

from __future__ import annotations

import asyncio
import itertools
from binascii import crc_hqx
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hiredis import ReplyError

from otel_loopguard.store.script import key_of
from otel_loopguard.store.settings import open_store
from tests.stack.harness.process import wait_until

from .callers import Caller
from .servers import KEY, PATIENT, Cluster, Sentinels, starting

_names = (f"turn-{number}" for number in itertools.count())
EVENT = (b"operation", b"an event")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with starting(tmp_path_factory) as start:
        yield Cluster(start)


@pytest.fixture(scope="module")
def sentinels(tmp_path_factory):
    with starting(tmp_path_factory) as start:
        yield Sentinels(start)


def opened(url, timeout=PATIENT):
    return open_store(f"{url}?timeout={timeout}", hash_key=KEY)


def append(store, key):
    return store.append(key, [EVENT], epoch=b"", seen=0)


async def aappend(store, key):
    return await store.aappend(key, [EVENT], epoch=b"", seen=0)


def test_a_service_that_no_sentinel_knows_is_a_failure(sentinels):
    store = opened(sentinels.url.replace("turns", "others"))
    assert append(store, next(_names)) is None
    assert store.failures == {"connection": 1}


def test_sentinels_that_are_gone_are_passed_over(sentinels):
    sentinels.sentinels[0].kill()
    assert append(opened(sentinels.url), next(_names)) is not None
    assert asyncio.run(aappend(opened(sentinels.url), next(_names))) is not None


def test_a_failover_under_load_loses_no_event_of_a_caller_that_lives_on(sentinels):
    """Four callers append to one log all the time, while the server is killed and its replica takes its place.

    The last test of these sentinels, because it kills a server.
    """
    key, stop = next(_names), []
    callers = [Caller(opened(sentinels.url, 0.2), key, f"caller{number}") for number in range(4)]

    def work(caller):
        while not stop:
            caller.add()

    with ThreadPoolExecutor() as pool:
        working = [pool.submit(work, caller) for caller in callers]
        wait_until("all have begun", lambda: all(len(caller.own) > 20 for caller in callers))
        sentinels.servers[0].kill()
        failed = wait_until("each has noticed", lambda: all(caller.store.failures for caller in callers))
        before = [len(caller.copy) for caller in callers]
        wait_until("all go on", lambda: all(len(one.copy) > b for one, b in zip(callers, before, strict=True)))
        stop.append(True)
    assert failed
    assert not [each.exception() for each in working if each.exception()]
    for _ in range(2):  # the first pass appends what was never acknowledged, the second reads it
        for caller in callers:
            wait_until("the breaker is closed", lambda one=caller: one.add())
    final = append(callers[0].store, key)
    stored = [entry.op.decode() for entry in final.entries if entry.op != b"operation"]
    assert sorted(stored) == sorted(op for caller in callers for op in caller.own)


def test_logs_are_spread_over_a_cluster(cluster):
    store = opened(cluster.url)
    keys = [next(_names) for _ in range(30)]
    assert all(append(store, key) for key in keys[:15])

    async def main():
        return await asyncio.gather(*(aappend(store, key) for key in keys[15:]))

    assert all(asyncio.run(main()))
    homes = [{key for key in keys if node("EXISTS", key_of(key)) == 1} for node in owners(cluster, keys)]
    assert all(homes)
    assert not store.failures


def owners(cluster, keys):
    """Functions that run a command on a node, with 0 as the reply for keys of other nodes."""

    def of(node):
        def run(*command):
            with suppress(ReplyError):  # MOVED
                return node(*command)
            return 0

        return run

    return [of(node) for node in cluster.nodes[:3]]


def test_a_log_that_moves_to_another_node_is_found_before_while_and_after(cluster):
    store = opened(cluster.url)
    key = next(name for name in _names if crc_hqx(name.encode(), 0) % 16384 < 5000)
    slot = crc_hqx(key.encode(), 0) % 16384
    source, target = cluster.nodes[0], cluster.nodes[1]
    assert append(store, key)
    ids = [node("CLUSTER", "MYID") for node in (source, target)]
    target("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
    source("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
    source("MIGRATE", "127.0.0.1", target.port, key_of(key), 0, 5000)
    assert [entry.op for entry in append(store, key).entries] == [b"operation"]
    assert [entry.op for entry in asyncio.run(aappend(store, key)).entries] == [b"operation"]
    for node in cluster.nodes[:3]:
        node("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
    assert [entry.op for entry in append(store, key).entries] == [b"operation"]
    assert not store.failures


def test_a_node_of_a_cluster_needs_the_scheme_of_clusters(cluster, caplog):
    store = opened(cluster.nodes[0].url)
    keys = [next(_names) for _ in range(40)]
    answers = [append(store, key) for key in keys]
    assert None in answers
    assert set(store.failures) <= {"cluster", "breaker_open"}


def test_while_a_node_is_down_only_its_logs_are_affected_and_its_replica_takes_over(cluster):
    """The last test of this cluster, because it kills a node."""
    store = opened(cluster.url, 0.5)
    keys = [next(_names) for _ in range(30)]
    assert all(append(store, key) for key in keys)
    of_first = {key for key in keys if owners(cluster, keys)[0]("EXISTS", key_of(key))}
    cluster.nodes[0].kill()
    others = [key for key in keys if key not in of_first]
    assert append(store, min(of_first)) is None
    assert all(append(store, key) for key in others)
    wait_until("the replica has taken over", lambda: all(append(store, key) for key in of_first))
