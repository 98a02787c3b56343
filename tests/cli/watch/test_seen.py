"""Tool spans that come twice are found, also those that another consumer judged if there is a store."""

from __future__ import annotations

import uuid

import pytest

from otel_loopguard.cli.watch.seen import SeenInStore
from otel_loopguard.engine.values.fingerprint import Fingerprinter
from otel_loopguard.spans.ancestry import Ancestry
from otel_loopguard.spans.otlp_protobuf import tool_spans_of
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
    store = open_store(f"{url}?timeout=5", hash_key=KEY)
    return SeenInStore(store, NAME), store


def test_a_span_that_another_consumer_judged_is_found_and_one_that_it_did_not_judge_is_not(server, spans):
    """A consumer that is killed leaves the spans that waited in it to the next one."""
    (killed, store), (survivor, _) = consumer(server.url), consumer(server.url)
    assert [killed.add(span) for span in spans] == [True] * 4
    for span in spans[:2]:
        killed.judged(span)
    assert store.flush(30)
    assert [survivor.add(span) for span in spans] == [False, False, True, True]
    assert [survivor.add(span) for span in spans] == [False] * 4


def test_a_trace_is_read_again_when_partitions_have_moved(server, spans):
    """A partition that comes back has spans that another consumer has judged in the meantime."""
    (first, _), (second, store) = consumer(server.url), consumer(server.url)
    assert first.add(spans[0])
    for span in spans[1:3]:
        assert second.add(span)
        second.judged(span)
    assert store.flush(30)
    assert first.add(spans[1])  # the log of its trace was read
    first.moved()
    assert [first.add(span) for span in spans] == [False, False, False, True]


def test_without_an_answer_a_consumer_knows_its_own_spans(spans):
    """No span is left out for want of a store."""
    seen, _ = consumer(f"redis://127.0.0.1:{free_ports(1)[0]}")
    assert [seen.add(span) for span in spans] == [True] * 4
    assert [seen.add(span) for span in spans] == [False] * 4
    for span in spans:
        seen.judged(span)


def test_a_trace_has_another_name_in_the_store(server, spans):
    """It is known there by a hash with the key of the deployment."""
    seen, store = consumer(server.url)
    for span in spans:
        seen.add(span)
        seen.judged(span)
    assert store.flush(30)
    names = server("KEYS", "*")
    assert any(NAME(spans[0].trace).encode() in name for name in names)
    assert not any(spans[0].trace.encode() in name for name in names)
