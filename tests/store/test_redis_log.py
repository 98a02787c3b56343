"""The store under faults: each is the answer None, counted by its kind, logged once, and ends with its cause."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from otel_loopguard.store.script import key_of
from otel_loopguard.store.settings import open_store
from tests.stack.harness.process import wait_until

from .callers import Caller
from .servers import KEY

QUICK = 0.05
"""The default time-out, for servers that do not answer. Else it is long: a busy machine is no fault."""
EVENT = (b"operation", b"an event")


def append(store, key, *ops, **known):
    return store.append(key, ops or [EVENT], **{"epoch": b"", "seen": 0, **known})


def both(store, key):
    """The answers to a thread and to a task."""

    async def main():
        return await store.aappend(key, [EVENT], epoch=b"", seen=0)

    return append(store, key), asyncio.run(main())


def test_threads_and_tasks_append_to_the_same_log(server, key):
    of_thread, of_task = both(server.store(), key)
    assert of_thread.entries == of_task.entries
    assert of_thread.epoch == of_task.epoch


def test_a_script_that_the_server_has_lost_is_sent_again(server, key):
    store = server.store()
    append(store, key)
    for _ in range(2):
        server("SCRIPT", "FLUSH")
        assert all(both(store, key))
    assert not store.failures


def test_connections_that_the_server_closed_are_no_failure(server, key):
    """Servers and load balancers close connections that are idle."""
    store = server.store()

    async def main():
        first = await store.aappend(key, [EVENT], epoch=b"", seen=0)
        append(store, key)
        server("CLIENT", "KILL", "TYPE", "normal")
        return first, await store.aappend(key, [EVENT], epoch=b"", seen=0), append(store, key)

    assert all(asyncio.run(main()))
    assert not store.failures


def test_a_killed_server_is_a_failure_of_the_connection_until_it_is_back(start_server, key):
    server = start_server()
    store = server.store()
    append(store, key)
    server.kill()
    assert both(store, key) == (None, None)
    assert store.failures == {"connection": 2}
    server.start()
    assert all(both(store, key))


def test_a_log_that_a_restart_lost_is_begun_again_with_what_a_caller_knows(start_server, key):
    server = start_server()
    one, two = Caller(server.store(), key, "one"), Caller(server.store(), key, "two")
    for caller in (one, two, one, two):
        caller.add()
    server.kill()
    server.start()
    two.add()
    one.add()
    two.add()
    assert sorted(two.copy) == ["one-0", "one-1", "one-2", "two-0", "two-1", "two-2", "two-3"]


def test_a_paused_server_is_a_time_out(start_server, key):
    server = start_server()
    store = server.store(QUICK)
    append(store, key)
    server.pause()
    assert both(store, key) == (None, None)
    assert store.failures == {"timeout": 2}


def test_a_server_that_is_slow_is_a_time_out(start_server, key):
    server = start_server()
    store = server.store(QUICK)
    append(store, key)
    server("CLIENT", "PAUSE", 60_000)
    assert both(store, key) == (None, None)
    assert store.failures == {"timeout": 2}


def test_an_append_that_timed_out_but_was_applied_is_applied_once(start_server, key):
    server = start_server()
    store = server.store(QUICK)
    append(store, key)
    server.pause()
    assert append(store, key, (b"late", b"an event")) is None
    server.resume()
    wait_until("it was applied", lambda: server("LLEN", key_of(key)) == 4)
    reply = wait_until("the store answers", lambda: append(store, key, (b"late", b"an event")))
    assert [entry.op for entry in reply.entries] == [b"operation", b"late"]


def test_a_full_server_is_a_failure_that_reading_does_not_end(start_server, key, caplog):
    server = start_server("maxmemory-policy noeviction")
    store = server.store()
    append(store, key)
    server("CONFIG", "SET", "maxmemory", 1)
    for number in range(4):
        append(store, key, (b"%d" % number, b"an event"))
        store.append(key, [], epoch=b"", seen=0)
    assert store.failures["full"] == 3
    assert store.failures["breaker_open"] > 0
    assert len(caplog.records) == 1
    assert "takes no writes" in caplog.text


def test_an_evicted_log_is_lost_as_a_whole(start_server):
    server = start_server("maxmemory 3mb", "maxmemory-policy allkeys-lru")
    store = server.store()
    for number in range(400):
        append(store, f"turn-{number}", (b"a", b"x" * 8_000))
    kept = [reply for number in range(400) if (reply := store.append(f"turn-{number}", [], epoch=b"", seen=0)).epoch]
    assert 0 < len(kept) < 400
    assert all(len(reply.entries) == 1 for reply in kept)


def test_an_outage_is_logged_once_and_its_end_once(start_server, key, caplog):
    server = start_server()
    store = server.store()
    append(store, key)
    server.kill()
    for _ in range(20):
        append(store, key)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["The shared store redis"]
    assert "cannot be used: no connection (Connection refused)" in caplog.text
    server.start()
    wait_until("the breaker has closed", lambda: append(store, key))
    assert len(caplog.records) == 2
    assert "answers again" in caplog.text


def test_under_an_open_breaker_no_server_is_asked(start_server, key):
    server = start_server()
    store = server.store(QUICK)
    append(store, key)
    server.kill()
    while not store.failures["breaker_open"]:
        append(store, key)
    assert store.failures["connection"] == 3
    store.send_later(key, [EVENT])
    assert store.flush(10)
    assert store.failures["breaker_open"] == 2


def test_a_wrong_answer_of_another_kind_of_server_is_a_failure(start_server, key):
    """The key is in use for something else, or the port is that of another protocol."""
    server = start_server()
    server("SET", key_of(key), "text")
    store = server.store()
    assert both(store, key) == (None, None)
    assert store.failures == {"error": 2}


def test_a_fault_of_the_package_is_no_exception(server, key, monkeypatch, caplog):
    store = server.store()
    monkeypatch.setattr("otel_loopguard.store.redis_log.parse", lambda reply: 1 / 0)
    assert both(store, key) == (None, None)
    assert "ZeroDivisionError" in caplog.text


RACE = """
import sys
from tests.store.callers import Caller
from otel_loopguard.store.settings import open_store

url, key, name = sys.argv[1:]
caller = Caller(open_store(url, hash_key=b"k" * 32), key, name)
for _ in range(50):
    assert caller.add(), caller.store.failures
print(*caller.copy)
"""


def test_eight_processes_that_race_on_one_log_lose_and_double_nothing(server, key):
    command = [sys.executable, "-c", RACE, f"{server.url}?timeout=5", key]
    racing = [subprocess.Popen([*command, f"p{number}"], stdout=subprocess.PIPE, text=True) for number in range(8)]
    copies = [process.communicate()[0].split() for process in racing]
    assert all(process.returncode == 0 for process in racing)
    stored = [entry.op.decode() for entry in append(server.store(), key).entries][:-1]
    assert sorted(stored) == sorted(f"p{number}-{count}" for number in range(8) for count in range(50))
    assert all(copy == stored[: len(copy)] for copy in copies)


def test_a_child_process_has_connections_of_its_own(server, key):
    """Parent and child append at the same time; with shared connections each would get replies of the other."""
    store = server.store()
    append(store, key)
    child = os.fork()
    if child == 0:
        caller = Caller(store, key, "child")
        os._exit(0 if all(caller.add() for _ in range(100)) and not store.failures else 1)
    caller = Caller(store, key, "parent")
    added = [caller.add() for _ in range(100)]
    assert os.waitpid(child, 0)[1] == 0
    assert all(added)
    ops = [entry.op.decode() for entry in append(store, key).entries][1:]
    assert sorted(ops) == sorted(f"{who}-{number}" for who in ("child", "parent") for number in range(100))


AT_EXIT = """
import sys
from otel_loopguard.store.settings import open_store

store = open_store(sys.argv[1], hash_key=b"k" * 32)
store.append(sys.argv[2], [], epoch=b"", seen=0)
for number in range(20):
    store.send_later(sys.argv[2], [(b"%d" % number, b"an event")])
"""


def test_at_the_end_of_the_program_waiting_events_are_appended(server, key):
    """And connections are closed: Python shows a warning about none."""
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", AT_EXIT, f"{server.url}?timeout=5", key]
    assert subprocess.run(command, check=True, capture_output=True).stderr == b""
    assert len(append(server.store(), key).entries) == 21


def test_a_paused_server_does_not_hold_up_the_end_of_the_program(start_server, key):
    server = start_server()
    server.pause()
    subprocess.run([sys.executable, "-c", AT_EXIT, server.url, key], check=True, timeout=30)


def test_no_secret_is_in_the_log_or_in_the_form_of_the_store(start_server, key, caplog):
    server = start_server("requirepass s3cret", password="s3cret")
    right = open_store(f"redis://:s3cret@127.0.0.1:{server.port}?timeout=5", hash_key=KEY)
    assert append(right, key)
    wrong = open_store(f"redis://someone:t0psecret@127.0.0.1:{server.port}?timeout=5", hash_key=KEY)
    for _ in range(4):
        append(wrong, key)
    assert wrong.failures["login"] == 3
    assert "it refuses the user, the password or a command" in caplog.text
    shown = caplog.text + repr(right) + repr(wrong) + repr(right.url) + repr(vars(right))
    assert "cret" not in shown
    assert "someone" not in shown
