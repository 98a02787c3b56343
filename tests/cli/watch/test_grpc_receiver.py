"""OTLP by gRPC, with the exporter of the SDK and a bare client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from otel_loopguard.cli.watch.address import Address
from otel_loopguard.cli.watch.grpc_receiver import GrpcReceiver
from otel_loopguard.errors import LoopGuardError

from .messages import call, message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOCAL = Address("127.0.0.1", 0)
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@pytest.fixture
def served(make: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Makes receivers with a judge, and a client of each."""
    closing: list[Callable[[], object]] = []

    def serve(**settings: object) -> tuple[Any, GrpcReceiver, Callable[..., bytes]]:
        judge = make(**settings)
        receiver = GrpcReceiver(LOCAL, judge)
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


def test_a_full_queue_answers_unavailable(served, kept) -> None:
    """After it, a collector tries again. What was refused is not judged, and what was taken is judged once."""
    judge, _, export = served(most_bytes=2_000)
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


def test_a_port_in_use_is_an_error_with_a_remedy(served, make) -> None:
    """Two watchers at one port would each get half of the spans."""
    _, receiver, _ = served()
    with pytest.raises(LoopGuardError, match=f"--otlp {receiver.address}: cannot listen there"):
        GrpcReceiver(receiver.address, make())
