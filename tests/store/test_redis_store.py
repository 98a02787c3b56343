"""Cells on a real server: who has seen the present version may change it. A fault is the answer None."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

from opentelemetry.instrumentation.redis import RedisInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_loopguard.store import background
from otel_loopguard.store.redis_store import name_of
from otel_loopguard.store.settings import open_store
from otel_loopguard.store.store import READ_ONLY, Newer, Swapped
from tests.stack.harness.process import wait_until

from .servers import KEY, swap, write

QUICK = 0.05
"""The default time-out, for servers that do not answer. Else it is long: a busy machine is no fault."""
ONE, TWO, THREE = b"version1", b"version2", b"version3"


def run_id(server):
    return server("INFO", "server").partition(b"run_id:")[2][:40]


def commands(server, name):
    """The number of times that a server was asked for something."""
    _, found, rest = server("INFO", "commandstats").decode().partition(f"cmdstat_{name}:calls=")
    return int(rest.partition(",")[0]) if found else 0


# --- cells ------------------------------------------------------------------------------------------------------------


def test_a_cell_is_begun_by_who_has_seen_none_and_read_by_all(server, key):
    assert isinstance(swap(server.store(), key, b"", ONE, b"state"), Swapped)
    found = swap(server.store(), key)
    assert (found.version, found.state) == (ONE, b"state")


def test_who_has_not_seen_the_present_version_gets_it_and_changes_nothing(server, key):
    store = server.store()
    swap(store, key, b"", ONE, b"state")
    for seen in (b"", TWO):
        assert swap(store, key, seen, THREE, b"other")[2:] == (ONE, b"state")
    assert isinstance(swap(store, key, ONE, TWO, b"other"), Swapped)
    assert swap(store, key)[2:] == (TWO, b"other")


def test_to_look_at_no_cell_makes_none(server, key):
    assert swap(server.store(), key)[2:] == (b"", b"")
    assert server("EXISTS", name_of(key)) == 0


def test_each_answer_has_the_time_and_the_id_of_the_server(server, key):
    before = int(server("TIME")[0])
    answers = [swap(server.store(), key), swap(server.store(), key, b"", ONE, b"state")]
    assert [answer.server for answer in answers] == [run_id(server)] * 2
    assert all(before <= answer.time <= int(server("TIME")[0]) + 1 for answer in answers)


def test_of_two_writers_that_have_seen_the_same_one_gets_the_state_of_the_other(server, key):
    stores = [server.store(), server.store()]

    async def race():
        return await asyncio.gather(*(s.swap(key, b"", v, v) for s, v in zip(stores, (ONE, TWO), strict=True)))

    answers = background.wait(race())
    (lost,) = (answer for answer in answers if isinstance(answer, Newer))
    assert lost.state == lost.version == (TWO, ONE)[answers.index(lost)]


PROGRAM = """
import os, sys
from otel_loopguard.store import background
from otel_loopguard.store.settings import open_store
from otel_loopguard.store.store import READ_ONLY, Swapped

url, key = sys.argv[1:3]
store = open_store(url, hash_key=b"the hash key of these tests, 32+")
"""
RACE = """
async def main():
    for number in range(20):
        found = await store.swap(key, READ_ONLY, b"", b"")
        while not isinstance(found, Swapped):
            state = found.state + f"{sys.argv[3]}-{number} ".encode()
            found = await store.swap(key, found.version, os.urandom(8), state)

background.wait(main())
"""


def program(code, server, *arguments, options=()):
    """The command that runs a program with a store."""
    return [sys.executable, *options, "-c", PROGRAM + code, f"{server.url}?timeout=5", *arguments]


def test_processes_that_race_on_one_cell_lose_and_double_nothing(server, key):
    racing = [subprocess.Popen(program(RACE, server, key, f"p{number}")) for number in range(4)]
    assert [process.wait() for process in racing] == [0] * 4
    written = swap(server.store(), key).state.decode().split()
    assert sorted(written) == sorted(f"p{number}-{count}" for number in range(4) for count in range(20))


def test_a_cell_expires(server, key):
    store = open_store(f"{server.url}?timeout=5", hash_key=KEY, expiry=60)
    write(store, key)
    assert 50_000 < server("PTTL", name_of(key)) <= 60_000


def test_nothing_in_a_cell_is_readable_on_the_server(server, key):
    write(server.store(), key, b"SECRET words" * 100)
    kept = server("GET", name_of(key))
    assert len(kept) < 200
    assert b"SECRET" not in kept


def test_with_another_hash_key_a_cell_is_there_and_has_no_state(server, key):
    version = write(server.store(), key)
    other = open_store(f"{server.url}?timeout=5", hash_key=b"another hash key")
    assert swap(other, key)[2:] == (version, b"")
    assert isinstance(swap(other, key, version, TWO, b"other"), Swapped)
    assert not other.failures


def test_a_cell_that_was_put_under_another_name_has_no_state(server, key):
    version = write(server.store(), key)
    server("COPY", name_of(key), name_of(f"{key}-other"))
    assert swap(server.store(), f"{key}-other")[2:] == (version, b"")


# --- faults -----------------------------------------------------------------------------------------------------------


def test_a_write_that_timed_out_but_was_done_is_recognised(start_server, key):
    """It is tried once, so it is not asked for twice either."""
    server = start_server()
    store = server.store(QUICK)
    write(store, key, b"before")
    seen, asked = swap(store, key).version, commands(server, "evalsha")
    server.pause()
    assert swap(store, key, seen, ONE, b"late") is None
    assert store.failures == {"timeout": 1}
    server.resume()
    wait_until("it was done", lambda: swap(server.store(), key).state == b"late")
    assert commands(server, "evalsha") == asked + 2
    assert isinstance(swap(store, key, seen, ONE, b"late"), Swapped)


def test_a_write_whose_answer_was_lost_with_the_connection_is_done_once(relay, key):
    """It is asked for again over a new connection, and the version shows that the first try has arrived."""
    store = open_store(f"{relay.url}?timeout=5", hash_key=KEY)
    seen = write(store, key, b"before")
    relay.loses = True
    assert isinstance(swap(store, key, seen, ONE, b"once"), Swapped)
    assert relay.loses is False
    assert swap(store, key)[2:] == (ONE, b"once")
    assert not store.failures


def test_a_script_that_the_server_has_lost_is_sent_again(server, key):
    store = server.store()
    for _ in range(2):
        server("SCRIPT", "FLUSH")
        assert write(store, key)
    assert not store.failures


def test_connections_that_the_server_closed_are_no_failure(start_server, key):
    """Servers and load balancers close connections that are idle."""
    server = start_server()
    store = server.store()
    for _ in range(3):
        assert write(store, key)
        server("CLIENT", "KILL", "TYPE", "normal")
    assert not store.failures


def test_a_killed_server_is_a_failure_of_the_connection_until_it_is_back(start_server, key):
    server = start_server()
    store = server.store()
    before = swap(store, key).server
    server.kill()
    assert swap(store, key) is None
    assert store.failures == {"connection": 1}
    server.start()
    assert swap(store, key).server not in (b"", before)


def test_a_connection_that_comes_too_late_serves_the_next_call(start_server, key):
    """As through a slow network: to connect takes more round trips than to ask."""
    server = start_server()
    store = server.store(QUICK)
    server.pause()
    assert swap(store, key) is None
    server.resume()
    wait_until("it is there", lambda: server("CLIENT", "LIST").count(b" cmd=eval") == 1)
    assert wait_until("the server answers", lambda: swap(store, key))
    assert store.failures["connection"] == 0


def test_an_answer_that_came_in_time_to_a_busy_process_is_no_time_out(relay, key):
    """The loop comes late to read it, because the program did not let it run."""
    store = open_store(f"{relay.url}?timeout=0.5", hash_key=KEY)
    assert wait_until("there is a connection", lambda: swap(store, key))
    store.failures.clear()
    relay.delay = 0.2

    async def main():
        waiting = asyncio.ensure_future(store.swap(key, READ_ONLY, b"", b""))
        await asyncio.sleep(0.05)
        threading.Event().wait(0.6)
        return await waiting

    assert background.wait(main())
    assert not store.failures


def test_a_full_server_is_a_failure_that_reading_does_not_end(start_server, key, caplog):
    server = start_server("maxmemory-policy noeviction")
    store = server.store()
    version = write(store, key)
    server("CONFIG", "SET", "maxmemory", 1)
    for _ in range(4):
        swap(store, key, version, TWO, b"more")
        swap(store, key)
    assert store.failures["full"] == 3
    assert store.failures["breaker_open"] > 0
    assert len(caplog.records) == 1
    assert "takes no writes" in caplog.text


def test_an_outage_is_logged_once_and_its_end_once(start_server, key, caplog):
    server = start_server()
    store = server.store()
    write(store, key)
    server.kill()
    for _ in range(20):
        swap(store, key)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["The shared store redis"]
    assert "cannot be used: no connection (Connection refused)" in caplog.text
    server.start()
    wait_until("the breaker has closed", lambda: swap(store, key))
    assert len(caplog.records) == 2
    assert "answers again" in caplog.text


def test_under_an_open_breaker_no_server_is_asked(start_server, key):
    server = start_server()
    store = server.store()
    server.kill()
    counted = []
    store.count = counted.append
    while not store.failures["breaker_open"]:
        swap(store, key)
    assert store.failures["connection"] == 3
    assert counted == ["connection"] * 3 + ["breaker_open"]


def test_calls_that_find_no_place_are_counted_and_tell_nothing_about_the_server(server, key, caplog):
    store = server.store(QUICK)
    assert wait_until("there is a connection", lambda: swap(store, key))
    store.failures.clear()

    async def main():
        servers = store._servers()
        while not servers._places.locked():
            await servers._places.acquire()
        refused = await asyncio.gather(*(store.swap(key, READ_ONLY, b"", b"") for _ in range(5)))
        servers._places.release()
        return refused, await store.swap(key, READ_ONLY, b"", b"")

    refused, last = background.wait(main())
    assert refused == [None] * 5
    assert store.failures == {"queue_full": 5}
    assert last is not None
    assert not caplog.records


def test_a_key_that_is_in_use_for_something_else_is_a_failure(server, key):
    server("LPUSH", name_of(key), "element")
    store = server.store()
    assert swap(store, key) is None
    assert store.failures == {"error": 1}
    server("DEL", name_of(key))  # other tests read all keys of this server


def test_a_fault_of_the_package_is_no_exception(server, key, monkeypatch, caplog):
    store = server.store()
    monkeypatch.setattr(store, "_read", lambda *_: 1 / 0)
    assert swap(store, key) is None
    assert "ZeroDivisionError" in caplog.text


def test_no_secret_is_in_the_log_or_in_the_form_of_the_store(start_server, key, caplog):
    server = start_server("requirepass s3cret", password="s3cret")
    right = open_store(f"redis://:s3cret@127.0.0.1:{server.port}?timeout=5", hash_key=KEY)
    assert swap(right, key)
    wrong = open_store(f"redis://someone:t0psecret@127.0.0.1:{server.port}?timeout=5", hash_key=KEY)
    for _ in range(4):
        swap(wrong, key)
    assert wrong.failures["login"] == 3
    assert "it refuses the user, the password or a command" in caplog.text
    shown = caplog.text + repr(right) + repr(wrong) + repr(right.url) + repr(vars(right))
    assert "cret" not in shown
    assert "someone" not in shown


# --- the program ------------------------------------------------------------------------------------------------------


def test_no_span_of_an_instrumentation_of_redis_is_made(server, key):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = RedisInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        with provider.get_tracer("program").start_as_current_span("the program's"):
            assert write(server.store(), key)
            server("PING")
    finally:
        instrumentor.uninstrument()
    assert [span.name for span in exporter.get_finished_spans()] == ["PING", "the program's"]


def test_a_child_process_has_connections_of_its_own(server, key):
    """Parent and child write at the same time; with shared connections each would get replies of the other."""
    store = server.store()
    write(store, key)
    child = os.fork()
    if child == 0:
        written = [write(store, f"{key}-child", b"child") for _ in range(50)]
        os._exit(0 if all(written) and swap(store, f"{key}-child").state == b"child" else 1)
    written = [write(store, key, b"parent") for _ in range(50)]
    assert os.waitpid(child, 0)[1] == 0
    assert all(written)
    assert swap(store, key).state == b"parent"
    assert not store.failures


CHILD = """
async def write():
    found = await store.swap(key, READ_ONLY, b"", b"")
    return await store.swap(key, found.version, os.urandom(8), b"state")

background.wait(write())
if os.fork() == 0:
    sys.exit(0)
os.wait()
for _ in range(5):
    assert background.wait(write())
assert not store.failures, store.failures
"""


def test_the_end_of_a_child_process_leaves_the_connections_of_its_parent_alone(server, key):
    """Both have the selector of the parent's loop: a socket that the child takes from it is gone for the parent."""
    command = program(CHILD, server, key, options=["-W", "ignore::DeprecationWarning"])
    assert subprocess.run(command, check=True, capture_output=True, text=True).stderr == ""


async def test_the_loops_of_the_program_may_end_between_calls(server, key):
    store = server.store()

    async def main():
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(store.swap(key, READ_ONLY, b"", b""), background.loop())
        )

    for _ in range(3):
        assert await asyncio.to_thread(asyncio.run, main())
    assert not store.failures


AT_EXIT = """
def write(number):
    background.loop().create_task(store.swap(f"{key}-{number}", b"", b"version1", b"state"))

background.wait(store.swap(key, READ_ONLY, b"", b""))
for number in range(20):
    background.soon(write, number)
"""
NO_LEAKS = ["-W", "error::ResourceWarning"]


def test_at_the_end_of_the_program_what_is_under_way_is_written(server, key):
    """And connections are closed: Python shows a warning about none."""
    command = program(AT_EXIT, server, key, options=NO_LEAKS)
    assert subprocess.run(command, check=True, capture_output=True).stderr == b""
    assert all(server("EXISTS", name_of(f"{key}-{number}")) for number in range(20))


def test_a_paused_server_does_not_hold_up_the_end_of_the_program(start_server, key):
    server = start_server()
    server.pause()
    command = program(AT_EXIT, server, key, options=NO_LEAKS)
    assert subprocess.run(command, check=True, capture_output=True, timeout=60).stderr == b""
