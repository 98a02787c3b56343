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

from otel_loopguard.cli.watch.address import ListenAddress
from otel_loopguard.cli.watch.budget import PATIENCE_SECONDS, REQUEST_SECONDS
from otel_loopguard.cli.watch.http_connections import MOST_HEADER
from otel_loopguard.cli.watch.http_receiver import HttpReceiver
from otel_loopguard.errors import LoopGuardError
from tests.spans.coding_agents import as_protobuf, lines
from tests.stack.harness.process import wait_until

from .messages import as_json, call, message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOCAL = ListenAddress("127.0.0.1", 0)
HEAD = b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n"
PROTOBUF, JSON = {"content-type": "application/x-protobuf"}, {"content-type": "application/json"}


@pytest.fixture
def served(make: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Makes receivers with a judge."""
    receivers: list[HttpReceiver] = []

    def serve(receiver: dict[str, Any] | None = None, **settings: object) -> tuple[Any, HttpReceiver]:
        judge = make(**settings)
        receivers.append(HttpReceiver(LOCAL, judge, **(receiver or {})))
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


class Clock:
    """A clock that goes only when it is told to."""

    def __init__(self) -> None:
        self.now, self.asked = 0.0, 0

    def __call__(self) -> float:
        """Return the time."""
        self.asked += 1
        return self.now


def ends(sock: socket.socket) -> bool:
    """Return True once the other side has closed the connection, without an answer."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def opened() -> Iterator[Callable[[HttpReceiver, bytes], socket.socket]]:
    """Opens bare connections, sends the begin of a request, and closes them at the end."""
    with ExitStack() as closing:

        def connect(receiver: HttpReceiver, begin: bytes) -> socket.socket:
            sock = closing.enter_context(socket.create_connection(receiver.address, timeout=30))
            sock.sendall(begin)
            return sock

        yield connect


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


def test_log_records_are_taken_beside_spans(served, kept, client) -> None:
    """Those of coding agents, in both formats."""
    judge, receiver = served()
    (line,) = (line for line in lines("claude-code") if "resourceLogs" in line)
    sender = client(receiver)
    assert sender.post(as_protobuf(line), PROTOBUF, "/v1/logs")[0] == 200
    for other in lines("codex"):
        assert sender.post(json.dumps(other).encode(), JSON, "/v1/logs")[0] == 200
    judge.close()
    assert {one.call.span.service.name for one in kept.calls} == {"claude-code", "codex_exec"}
    assert len(kept.calls) == 9 + 11


def test_a_full_queue_answers_503_with_retry_after(served, kept, client) -> None:
    """After it, a collector tries again at that time. What was refused is not judged."""
    judge, receiver = served(most_bytes=20_000)
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
    judge, receiver = served(most_bytes=20_000)
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
        (400, json.dumps({"resourceSpans": []}).encode(), JSON, "/v1/logs"),
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


@pytest.mark.parametrize(
    "request_",
    [
        b"content-length: many\r\n\r\n",
        b"content-length: -1\r\n\r\n",
        b"content-length: " + b"9" * 5_000 + b"\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\nmany\r\n",
        b"transfer-encoding: chunked\r\n\r\n-5\r\n",
    ],
)
def test_a_body_without_a_size_is_refused_for_good(served, kept, opened, request_) -> None:
    """Where it ends is not known, so the connection is closed after the answer."""
    _, receiver = served()
    sock = opened(receiver, HEAD + request_)

    assert sock.recv(1_000).startswith(b"HTTP/1.1 400 ")
    assert sock.recv(1) == b""
    assert kept.refusals == {"malformed": 1}


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


def test_headers_without_an_end_are_not_kept(served, opened) -> None:
    """They are read up to their limit; then the connection is closed."""
    _, receiver = served()
    sock = opened(receiver, HEAD + b"x: " + b"y" * MOST_HEADER)

    assert ends(sock)


def test_a_request_has_a_deadline_however_often_a_byte_of_it_comes(served, kept, opened) -> None:
    """It is for the whole of it, and not for each byte. The message counts as refused."""
    clock = Clock()
    judge, receiver = served({"clock": clock})
    sock = opened(receiver, HEAD + b"content-length: 1000\r\n\r\n")
    wait_until("its body is awaited", lambda: judge.budget.used == 1_000)
    sock.sendall(b"x")
    clock.now += REQUEST_SECONDS
    sock.sendall(b"x")

    assert ends(sock)
    wait_until("it is counted", lambda: kept.refusals == {"slow": 1})
    assert judge.budget.used == 0


def test_a_header_has_the_same_deadline(served, opened) -> None:
    """It begins with the first byte of the request."""
    clock = Clock()
    _, receiver = served({"clock": clock})
    sock = opened(receiver, b"POST / HTTP/1.1\r\n")
    wait_until("it waits for more", lambda: clock.asked >= 3)  # at the connection, and around the first line
    clock.now += REQUEST_SECONDS
    sock.sendall(b"x: y\r\n")

    assert ends(sock)


def test_the_oldest_connection_that_waits_makes_room_for_a_new_one(served, client, opened) -> None:
    """Half a header and nothing at all are the same. Those that are younger stay, and so does every new sender."""
    _, receiver = served({"most_connections": 3})
    slow, silent, quick = opened(receiver, HEAD), opened(receiver, b""), client(receiver)
    assert quick.post(message(call(1)).SerializeToString(), PROTOBUF)[0] == 200
    first, second = client(receiver), client(receiver)

    assert first.post(message(call(2)).SerializeToString(), PROTOBUF)[0] == 200
    assert ends(slow)
    assert second.post(message(call(3)).SerializeToString(), PROTOBUF)[0] == 200
    assert ends(silent)
    assert quick.post(message(call(4)).SerializeToString(), PROTOBUF)[0] == 200


def test_more_idle_connections_than_there_are_places_shut_nobody_out(served, client, opened) -> None:
    """Each new sender is served."""
    _, receiver = served({"most_connections": 4})
    for _ in range(20):
        opened(receiver, HEAD)

    assert [client(receiver).post(message(call(n)).SerializeToString(), PROTOBUF)[0] for n in range(1, 6)] == [200] * 5


def test_a_body_is_taken_from_the_budget_before_it_is_read(served, kept, client, opened) -> None:
    """The next one, for which there is no room beside it, is answered 503. Its connection goes on to be of use."""
    judge, receiver = served({"clock": Clock()}, most_bytes=100_000)
    opened(receiver, HEAD + b"content-length: 99000\r\n\r\n")
    wait_until("its body is awaited", lambda: judge.budget.used == 99_000)
    sender = client(receiver)

    assert sender.post(bytes(2_000), PROTOBUF)[0] == 503
    assert kept.refusals == {"full": 1}
    assert sender.post(b"", PROTOBUF)[0] == 200


@pytest.mark.parametrize("headers", [PROTOBUF, {**PROTOBUF, "content-encoding": "gzip"}])
def test_chunks_and_gzip_take_from_the_budget_as_they_grow(served, kept, client, opened, headers) -> None:
    """What is larger than the room that is left is answered 503, wherever that shows."""
    judge, receiver = served({"clock": Clock()}, most_bytes=100_000)
    opened(receiver, HEAD + b"content-length: 90000\r\n\r\n")
    wait_until("its body is awaited", lambda: judge.budget.used == 90_000)
    body = bytes(50_000)
    chunks = iter([gzip.compress(body)] if headers is not PROTOBUF else [body[:5_000]] * 10)

    assert client(receiver).post(chunks, headers, encode_chunked=True)[0] == 503
    assert kept.refusals == {"full": 1}
    assert judge.budget.used == 90_000


@pytest.mark.parametrize(("status", "first"), [(503, b"x" * 15_000), (413, b"x" * 150_000)])
def test_a_sender_reads_the_refusal_when_it_has_sent_all(served, kept, client, opened, *, status, first) -> None:
    """The rest of a body in chunks is read and dropped, although the connection ends with the answer."""
    judge, receiver = served({"clock": Clock()}, most_bytes=100_000)
    opened(receiver, HEAD + b"content-length: 90000\r\n\r\n")
    wait_until("its body is awaited", lambda: judge.budget.used == 90_000)

    def chunks() -> Iterator[bytes]:
        yield first
        wait_until("it is refused", lambda: kept.refusals)
        for _ in range(100):
            yield bytes(50_000)

    found, headers, _ = client(receiver).post(chunks(), PROTOBUF, encode_chunked=True)
    assert (found, headers["connection"]) == (status, "close")
    assert judge.budget.used == 90_000


def test_a_slow_request_makes_room_for_others(served, kept, client, opened) -> None:
    """After some patience it is dropped, and counted. The others get its bytes."""
    clock = Clock()
    judge, receiver = served({"clock": clock}, most_bytes=100_000)
    sock = opened(receiver, HEAD + b"content-length: 99900\r\n\r\n" + b"x" * 50_000)
    wait_until("its body is awaited", lambda: judge.budget.used == 99_900)
    clock.now += PATIENCE_SECONDS

    assert client(receiver).post(message(call(1)).SerializeToString(), PROTOBUF)[0] == 200
    assert ends(sock)
    assert kept.refusals == {"slow": 1}
    judge.close()
    assert len(kept.calls) == 1


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
    with pytest.raises(LoopGuardError, match=f"--otlp-http {receiver.address}: nothing can listen there"):
        HttpReceiver(receiver.address, make())


def test_a_fault_is_answered_as_if_there_was_no_room(served, client, monkeypatch) -> None:
    """The sender sends the message again, on the same connection."""
    judge, receiver = served()
    one, body = client(receiver), message(call(1)).SerializeToString()
    with monkeypatch.context() as patch:
        patch.setattr(judge, "take", None)
        status, headers, _ = one.post(body, PROTOBUF)
    assert (status, headers["retry-after"]) == (503, "2")
    assert judge.shield.seen == {"watch.http"}
    assert one.post(body, PROTOBUF)[0] == 200
