"""OTLP by HTTP, with the exporter of the SDK, a client with open connections, and bare sockets."""

from __future__ import annotations

import gzip
import json
import socket
from contextlib import ExitStack
from http.client import HTTPConnection
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from otel_loopguard.cli.watch.address import Address
from otel_loopguard.cli.watch.http_receiver import HttpReceiver
from otel_loopguard.errors import LoopGuardError
from tests.stack.harness.process import wait_until

from .messages import as_json, call, message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOCAL = Address("127.0.0.1", 0)
PROTOBUF, JSON = {"content-type": "application/x-protobuf"}, {"content-type": "application/json"}


@pytest.fixture
def served(make: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Makes receivers with a judge."""
    receivers: list[HttpReceiver] = []

    def serve(**settings: object) -> tuple[Any, HttpReceiver]:
        judge = make(**settings)
        receivers.append(HttpReceiver(LOCAL, judge))
        receivers[-1].start()
        return judge, receivers[-1]

    yield serve
    for one in receivers:
        one.stop()


class Client:
    """One connection, which stays open."""

    def __init__(self, receiver: HttpReceiver) -> None:
        self.connection = HTTPConnection(*receiver.address, timeout=30)

    def post(self, body: Any, headers: dict[str, str], path: str = "/v1/traces", **more: Any) -> tuple[int, Any, bytes]:
        """Return status, headers and body of the answer."""
        self.connection.request("POST", path, body, headers, **more)
        answer = self.connection.getresponse()
        return answer.status, answer.headers, answer.read()


@pytest.fixture
def client() -> Iterator[Callable[[HttpReceiver], Client]]:
    """Makes clients, and closes their connections."""
    with ExitStack() as closing:

        def make(receiver: HttpReceiver) -> Client:
            made = Client(receiver)
            closing.callback(made.connection.close)
            return made

        yield make


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_spans_of_the_sdks_exporter_are_judged(served, kept, compression) -> None:
    """Plain and gzip."""
    judge, receiver = served()
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = OTLPSpanExporter(f"http://{receiver.address}/v1/traces", compression=compression)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "look", "input.value": "a", "output.value": "b"}
    with provider.get_tracer("made").start_as_current_span("look", attributes=attributes):
        pass
    provider.shutdown()
    judge.close()

    assert [one.call.span.tool for one in kept.calls] == ["look"]


def test_json_and_protobuf_are_taken_on_one_connection(served, kept, client) -> None:
    """The answer has the format of the request, and the connection stays open. So do bodies in chunks, and gzip."""
    judge, receiver = served()
    sender = client(receiver)
    first, second, third = (message(call(number)) for number in range(1, 4))
    plain = sender.post(first.SerializeToString(), PROTOBUF)
    as_text = sender.post(json.dumps(as_json(second)).encode(), {"content-type": "application/json; charset=utf-8"})
    packed = gzip.compress(json.dumps(as_json(third)).encode())
    chunks = (packed[start : start + 100] for start in range(0, len(packed), 100))
    in_chunks = sender.post(chunks, {**JSON, "content-encoding": "gzip"}, encode_chunked=True)

    assert (plain[0], plain[1]["content-type"], plain[2]) == (200, PROTOBUF["content-type"], b"")
    assert (as_text[0], as_text[1]["content-type"], as_text[2]) == (200, JSON["content-type"], b"{}")
    assert (in_chunks[0], in_chunks[2]) == (200, b"{}")
    judge.close()
    assert len(kept.calls) == 3


def test_a_full_queue_answers_503_with_retry_after(served, kept, client) -> None:
    """After it, a collector tries again at that time. What was refused is not judged."""
    judge, receiver = served(most_bytes=2_000)
    sender = client(receiver)
    kept.hold()
    answers = [sender.post(message(call(number)).SerializeToString(), PROTOBUF) for number in range(1, 11)]
    kept.go_on.set()
    judge.close()

    statuses = [status for status, _, _ in answers]
    assert set(statuses) == {200, 503}
    assert len(kept.calls) == statuses.count(200)
    _, headers, body = next(one for one in answers if one[0] == 503)
    assert headers["retry-after"] == "2"
    assert Status.FromString(body).code == 14


def test_the_sdks_exporter_tries_again_after_503(served, kept) -> None:
    """Nothing is lost: it waits, and its spans are judged once."""
    judge, receiver = served(most_bytes=1_000)
    kept.hold()
    taken = 0
    while judge.take(message(call(90 + taken)).SerializeToString()):
        taken += 1
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"http://{receiver.address}/v1/traces")))
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "look", "input.value": "a", "output.value": "b"}

    def export() -> None:
        provider.get_tracer("made").start_span("look", attributes=attributes).end()

    exporting = Thread(target=export)
    exporting.start()
    wait_until("it was refused", lambda: kept.refusals["full"] >= 2)
    kept.go_on.set()
    exporting.join(60)
    provider.shutdown()
    judge.close()

    assert sorted(one.call.span.tool for one in kept.calls) == ["look"] + ["search"] * taken


@pytest.mark.parametrize(
    ("status", "body", "headers", "path"),
    [
        (400, b"no protobuf", PROTOBUF, "/v1/traces"),
        (400, b"{", JSON, "/v1/traces"),
        (400, b"no gzip", {**PROTOBUF, "content-encoding": "gzip"}, "/v1/traces"),
        (400, gzip.compress(b"0123456789" * 99, mtime=0)[:-9], {**PROTOBUF, "content-encoding": "gzip"}, "/v1/traces"),
        (404, b"", PROTOBUF, "/v1/metrics"),
        (413, gzip.compress(bytes(20_000), mtime=0), {**PROTOBUF, "content-encoding": "gzip"}, "/v1/traces"),
        (413, bytes(20_000), PROTOBUF, "/v1/traces"),
        (415, b"", {"content-type": "text/plain"}, "/v1/traces"),
        (415, b"", {**PROTOBUF, "content-encoding": "zstd"}, "/v1/traces"),
    ],
)
def test_other_requests_are_refused_with_a_reason(served, kept, client, *, status, body, headers, path) -> None:
    """None of these is sent again by a collector. The reason is in the format of the request."""
    _, receiver = served(most_bytes=10_000)
    found, _, answer = client(receiver).post(body, headers, path)

    assert found == status
    reason = json.loads(answer)["message"] if headers is JSON else Status.FromString(answer).message
    assert len(reason) > 10
    assert not kept.all_spans


def test_half_a_message_is_not_taken(served, kept) -> None:
    """A connection that breaks in the middle of a body leaves nothing to judge: half of it may be a message, too."""
    judge, receiver = served()
    half = message(call(1)).SerializeToString()
    with socket.create_connection(receiver.address, timeout=30) as client:
        head = "POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n"
        client.sendall(f"{head}content-length: {2 * len(half)}\r\n\r\n".encode() + half)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b""
    judge.close()

    assert not kept.all_spans


def test_an_open_connection_does_not_keep_the_receiver_from_its_end(served, client) -> None:
    """It is idle, and its client learns at its next request."""
    judge, receiver = served()
    sender = client(receiver)
    assert sender.post(message(call(1)).SerializeToString(), PROTOBUF)[0] == 200
    receiver.stop()
    judge.close()

    status, headers, _ = sender.post(message(call(2)).SerializeToString(), PROTOBUF)
    assert (status, headers["connection"]) == (503, "close")


def test_a_port_in_use_is_an_error_with_a_remedy(served, make) -> None:
    """The error names the option and another port."""
    _, receiver = served()
    with pytest.raises(LoopGuardError, match=f"--otlp-http {receiver.address}: cannot listen there"):
        HttpReceiver(receiver.address, make())
