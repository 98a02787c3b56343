"""The doctor on the shared store, against real servers."""

from __future__ import annotations

import pytest

from otel_loopguard.cli.doctor.store import of_store
from tests.cli.processes import command
from tests.store.servers import KEY, starting

VARIABLE = "OTEL_PYTHON_LOOPGUARD_STORE"


@pytest.fixture
def start(tmp_path_factory):
    with starting(tmp_path_factory) as start:
        yield start


def found(url, key=KEY):
    return {one.code: one.text for one in of_store({VARIABLE: url}, key)}


def test_without_a_store_there_is_no_finding():
    assert list(of_store({}, None)) == []


def test_a_store_that_answers(start):
    server = start("maxmemory 100mb", "maxmemory-policy volatile-ttl")
    url = f"{server.url}?timeout=5"
    assert list(found(url)) == ["store-answers"]
    assert f"The shared store {server.url} (Redis 7" in found(url)["store-answers"]
    assert server("TTL", "loopguard:{doctor}") <= 10


def test_valkey_is_named(start):
    server = start(kind="valkey-server")
    assert "(Valkey " in found(f"{server.url}?timeout=5")["store-answers"]


def test_a_server_without_a_bound_and_one_that_drops_any_key(start):
    server = start()
    assert "store-unbounded" in found(server.url)
    server("CONFIG", "SET", "maxmemory", "100mb")
    server("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    assert "(allkeys-lru), also those of turns in progress" in found(server.url)["store-evicts"]


def test_a_server_that_answers_later_than_the_time_out(start):
    server = start("maxmemory 100mb")
    assert list(found(f"{server.url}?timeout=0.000001")) == ["store-slow"]


def test_a_server_that_is_not_there(start):
    server = start()
    server.kill()
    assert "no connection (Connection refused)" in found(server.url)["store-unusable"]


def test_a_user_who_may_not_append(start):
    server = start()
    server("ACL", "SETUSER", "guard", "on", ">s3cret", "~loopguard:*", "+info", "+ping")
    text = found(f"redis://guard:s3cret@127.0.0.1:{server.port}?timeout=5")["store-unusable"]
    assert "a cell cannot be set: login" in text
    assert "cret" not in text


def test_mistakes():
    assert "set OTEL_PYTHON_LOOPGUARD_HASH_KEY_FILE" in found("redis://127.0.0.1", key=None)["store-mistake"]
    assert "no such kind of store" in found("http://127.0.0.1")["store-mistake"]


def test_the_doctor_names_them():
    done = command("doctor", more={VARIABLE: "http://:s3cret@127.0.0.1"})
    assert "[store-mistake]" in done.stdout
    assert "cret" not in done.stdout


def test_policy_show_names_them():
    done = command("policy", "show", more={VARIABLE: "redis://127.0.0.1"})
    assert "a shared store needs the same key in all processes" in done.stderr
    assert done.returncode == 0
