"""Tool spans that come twice are found, also those that another consumer judged if there is a store."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from otel_loopguard.cli.watch.seen import SeenInStore
from otel_loopguard.engine.values.fingerprint import Fingerprinter
from otel_loopguard.spans.ancestry import Ancestry
from otel_loopguard.spans.otlp_protobuf import tool_spans_of
from otel_loopguard.store import background
from otel_loopguard.store.settings import open_store
from tests.stack.harness.process import free_ports
from tests.store.servers import KEY, starting

from .messages import call, message

NAME = Fingerprinter(KEY).name


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A real server."""
    with starting(tmp_path_factory) as start:
        yield start()


@pytest.fixture
def spans():
    """Four calls of a new trace."""
    trace = uuid.uuid4().int
    return list(tool_spans_of(message(*(call(number, trace=trace) for number in range(1, 5))), Ancestry()))


def consumer(url):
    return SeenInStore(open_store(f"{url}?timeout=5", hash_key=KEY), NAME)


async def _written():
    writes = {task for task in asyncio.all_tasks() if task.get_coro().__name__ == "_write"}
    assert writes
    await asyncio.wait(writes, timeout=30)


def wait_until_written():
    """Wait for the writes that run in the background."""
    background.wait(_written())


def test_a_span_that_another_consumer_judged_is_found_and_one_that_it_did_not_judge_is_not(server, spans):
    """A consumer that is killed leaves the spans that waited in it to the next one."""
    killed, survivor = consumer(server.url), consumer(server.url)
    assert [killed.add(span) for span in spans] == [True] * 4
    for span in spans[:2]:
        killed.judged(span)
    wait_until_written()
    assert [survivor.add(span) for span in spans] == [False, False, True, True]
    assert [survivor.add(span) for span in spans] == [False] * 4


def test_a_trace_is_read_again_when_partitions_have_moved(server, spans):
    """A partition that comes back has spans that another consumer has judged in the meantime."""
    first, second = consumer(server.url), consumer(server.url)
    assert first.add(spans[0])
    for span in spans[1:3]:
        assert second.add(span)
        second.judged(span)
    wait_until_written()
    assert first.add(spans[1])  # the cell of its trace was read
    first.moved()
    assert [first.add(span) for span in spans] == [False, False, False, True]


def test_without_an_answer_a_consumer_knows_its_own_spans(spans):
    """No span is left out for want of a store."""
    seen = consumer(f"redis://127.0.0.1:{free_ports(1)[0]}")
    assert [seen.add(span) for span in spans] == [True] * 4
    assert [seen.add(span) for span in spans] == [False] * 4
    for span in spans:
        seen.judged(span)


def test_a_trace_has_another_name_in_the_store(server, spans):
    """It is known there by a hash with the key of the deployment."""
    seen = consumer(server.url)
    for span in spans:
        seen.add(span)
        seen.judged(span)
    wait_until_written()
    names = server("KEYS", "*")
    assert any(NAME(spans[0].trace).encode() in name for name in names)
    assert not any(spans[0].trace.encode() in name for name in names)
