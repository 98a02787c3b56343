"""Check the shared store: its variables, that it answers in time and takes cells, and what it does when it is full."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_loopguard.cli.doctor.finding_kinds import Finding, finding
from otel_loopguard.errors import StoreError
from otel_loopguard.store import background
from otel_loopguard.store.settings import store_from_environment
from otel_loopguard.store.store import VERSION_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_loopguard.store.redis_store import RedisStore

_KEY = "doctor"
_EXPIRY = 10.0
_PINGS = 20
_PATIENCE = 3.0
"""The time-out here, in seconds: longer than a program's, so that a slow server is not taken for a missing one."""


def of_store(environ: Mapping[str, str], hash_key: bytes | None) -> Iterator[Finding]:
    """Yield mistakes in the variables of the store, and what its server shows; nothing without a store."""
    store, problems = store_from_environment(environ, hash_key)
    for problem in problems:
        yield finding("store-mistake", problem=problem)
    if store is not None:
        yield from _of_server(store)


def _of_server(store: RedisStore) -> Iterator[Finding]:
    from otel_loopguard.store.redis_store import RedisStore  # noqa: PLC0415 - needs the extra, which is there now

    url = store.url
    patient = RedisStore(replace(url, timeout=_PATIENCE), store.seal, expiry=_EXPIRY)
    try:
        seconds = statistics.median([_ping(patient) for _ in range(_PINGS)])
        server, memory = background.wait(patient.ask(_KEY, ("INFO", "server"), ("INFO", "memory")))
    except StoreError as error:
        yield finding("store-unusable", url=url, reason=error)
        return
    if background.wait(patient.swap(_KEY, b"", os.urandom(VERSION_SIZE), b"")) is None:
        yield finding("store-unusable", url=url, reason=f"a cell cannot be set: {next(iter(patient.failures))}")
        return
    name = "Valkey" if "valkey_version" in server else "Redis"
    version = server.get("valkey_version") or server.get("redis_version")
    in_ms: dict[str, Any] = {"ms": f"{seconds * 1000:.2g}", "timeout": f"{url.timeout * 1000:.0f}"}
    slow = seconds > url.timeout / 2
    yield finding("store-slow" if slow else "store-answers", url=url, server=f"{name} {version}", **in_ms)
    policy = memory.get("maxmemory_policy", "")
    if not int(memory.get("maxmemory", 0)):
        yield finding("store-unbounded", url=url)
    elif policy.startswith("allkeys"):
        yield finding("store-evicts", url=url, policy=policy)


def _ping(store: RedisStore) -> float:
    start = time.perf_counter()
    background.wait(store.ask(_KEY, ("PING",)))
    return time.perf_counter() - start
