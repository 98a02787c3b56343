"""OTLP by gRPC, with the exporter of the SDK and a bare client."""

from __future__ import annotations

import socket
from threading import Event
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from otel_loopguard.cli.watch.address import ListenAddress
from otel_loopguard.cli.watch.budget import PATIENCE_SECONDS, REQUEST_SECONDS
from otel_loopguard.cli.watch.grpc_receiver import THREADS, GrpcReceiver
from otel_loopguard.errors import LoopGuardError
from tests.spans.coding_agents import as_protobuf, lines
from tests.stack.harness.process import wait_until

from .messages import call, message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOCAL = ListenAddress("127.0.0.1", 0)
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@pytest.fixture
def served(make: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Makes receivers with a judge, and a client of each."""
    closing: list[Callable[[], object]] = []

    def serve(
        receiver: dict[str, Any] | None = None, **settings: object
    ) -> tuple[Any, GrpcReceiver, Callable[..., bytes]]:
        judge = make(**settings)
        receiver = GrpcReceiver(LOCAL, judge, **(receiver or {}))
        receiver.start()
        channel = grpc.insecure_channel(str(receiver.address), options=[("grpc.max_send_message_length", -1)])
        closing.extend((channel.close, receiver.stop))
        return judge, receiver, channel.unary_unary(METHOD)

    yield serve
    for close in closing:
        close()


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_spans_of_the_sdks_exporter_are_judged(served, kept, compression) -> None:
    """Plain and gzip."""
    judge, receiver, _ = served()
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = OTLPSpanExporter(f"http://{receiver.address}", insecure=True, compression=compression)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("made")
    with tracer.start_as_current_span("request"):
        for _ in range(4):
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "search",
                "gen_ai.tool.call.arguments": '{"q":"x"}',
                "gen_ai.tool.call.result": "nothing",
            }
            with tracer.start_as_current_span("execute_tool search", attributes=attributes):
                pass
    provider.shutdown()
    judge.close()

    assert [trip.call for trip in kept.trips] == [1, 2, 3]
    assert kept.all_spans == 5


def test_log_records_are_taken_beside_spans(served, kept) -> None:
    """Those of coding agents, by the service for logs."""
    judge, receiver, _ = served()
    with grpc.insecure_channel(str(receiver.address)) as channel:
        export = channel.unary_unary(METHOD.replace("trace", "logs").replace("Trace", "Logs"))
        for line in lines("codex"):
            export(as_protobuf(line), timeout=30)
    judge.close()
    assert len(kept.calls) == 11


def test_a_full_queue_answers_unavailable(served, kept) -> None:
    """After it, a collector tries again. What was refused is not judged, and what was taken is judged once."""
    judge, _, export = served(most_bytes=20_000)
    kept.hold()
    pending = [export.future(message(call(number)).SerializeToString(), timeout=30) for number in range(1, 21)]
    codes = [one.code().name for one in pending]
    kept.go_on.set()
    judge.close()

    assert set(codes) == {"OK", "UNAVAILABLE"}
    assert len(kept.calls) == codes.count("OK")


def test_many_requests_at_once_reach_no_limit_of_grpc(served, kept) -> None:
    """More requests than the server has threads wait for one: none is answered with RESOURCE_EXHAUSTED."""
    judge, _, export = served()
    pending = [export.future(message(call(number)).SerializeToString(), timeout=60) for number in range(1, 201)]

    assert [one.code().name for one in pending] == ["OK"] * 200
    judge.close()
    assert len(kept.calls) == 200


def test_a_message_of_more_than_four_megabytes_is_taken(served, kept) -> None:
    """The default limit of grpcio is not that of the queue."""
    judge, _, export = served()
    export(message(call(1, result="x" * (6 << 20))).SerializeToString(), timeout=30)
    judge.close()

    assert len(kept.calls) == 1


def test_a_message_that_is_no_otlp_is_an_invalid_argument(served, kept) -> None:
    """A collector does not send it again."""
    _, _, export = served()
    with pytest.raises(grpc.RpcError) as caught:
        export(b"no protobuf", timeout=30)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "no OTLP" in caught.value.details()


def test_a_gzip_bomb_is_refused_at_the_budget(served, kept) -> None:
    """It is unpacked here, and not by the library, which has no limit for it."""
    judge, _, export = served(most_bytes=1_000_000)
    with pytest.raises(grpc.RpcError) as caught:
        export(bytes(50_000_000), timeout=30, compression=grpc.Compression.Gzip)

    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert kept.refusals == {"large": 1}
    assert judge.budget.used == 0


def test_the_budget_is_one_with_that_of_http(served, kept) -> None:
    """While a body by HTTP has nearly all of it, a message by gRPC is answered UNAVAILABLE."""
    judge, _, export = served(most_bytes=100_000)
    with judge.budget.share() as body:
        body.resize(99_900)
        with pytest.raises(grpc.RpcError) as caught:
            export(message(call(1)).SerializeToString(), timeout=30)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert kept.refusals == {"full": 1}
    export(message(call(1)).SerializeToString(), timeout=30)
    judge.close()

    assert len(kept.calls) == 1


@pytest.mark.parametrize(("number", "seconds"), [(1, REQUEST_SECONDS), (THREADS, PATIENCE_SECONDS)])
def test_slow_requests_are_dropped_and_the_others_are_served(served, kept, number, seconds) -> None:
    """One has its time. If they have all threads, they have less, and no sender is shut out."""
    now = [0.0]
    judge, receiver, export = served({"clock": lambda: now[0]})
    with grpc.insecure_channel(str(receiver.address)) as channel:
        over = Event()
        slow = [channel.stream_unary(METHOD).future(never(over), timeout=60) for _ in range(number)]
        wait_until("they are read", lambda: receiver.requests.reading_now == number)
        now[0] += seconds
        export(message(call(1)).SerializeToString(), timeout=30)
        codes = {one.code() for one in slow}
        wait_until("all are counted", lambda: kept.refusals["slow"] == number)
        over.set()
    judge.close()

    assert codes == {grpc.StatusCode.CANCELLED}
    assert len(kept.calls) == 1
    assert kept.refusals == {"slow": number}


def never(over: Event) -> Iterator[bytes]:
    """Send no message."""
    over.wait(60)
    yield from ()


def test_a_request_without_a_message_is_an_invalid_argument(served, kept) -> None:
    """It has ended, and there is nothing to judge."""
    _, receiver, _ = served()
    with grpc.insecure_channel(str(receiver.address)) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.stream_unary(METHOD)(iter(()), timeout=30)

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert kept.refusals == {"malformed": 1}


def test_a_connection_without_requests_is_closed(served) -> None:
    """Its client opens another one when it has something to send."""
    _, receiver, _ = served({"quiet": 0.1})
    with socket.create_connection(receiver.address, timeout=30) as sock:
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        while sock.recv(1_000):  # its settings, and that it goes away
            pass


def test_a_port_in_use_is_an_error_with_a_remedy(served, make) -> None:
    """Two watchers at one port would each get half of the spans."""
    _, receiver, _ = served()
    with pytest.raises(LoopGuardError, match=f"--otlp {receiver.address}: nothing can listen there"):
        GrpcReceiver(receiver.address, make())


def test_a_fault_is_answered_as_if_there_was_no_room(served, monkeypatch, caplog) -> None:
    """The sender sends the message again, and the log has no text of the exception."""
    judge, _, send = served()
    monkeypatch.setattr(judge, "_reserve", raises)
    with pytest.raises(grpc.RpcError) as refused:
        send(message(call(1)).SerializeToString(), timeout=30)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert judge.shield.seen == {"watch.grpc"}
    assert "SECRET" not in caplog.text
    monkeypatch.undo()
    assert send(message(call(1)).SerializeToString(), timeout=30) == b""


def raises(*_: Any, **__: Any) -> None:
    """Have a fault."""
    raise ArithmeticError("SECRET")
