"""Applications, the collector, a Kafka broker and two consumers: the trips in Prometheus are exact."""

from __future__ import annotations

import json
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import grpc  # type: ignore[import-untyped]  # the package has no type hints
import pytest

from otel_loopguard import semconv
from tests.cli.processes import COMMAND, environment
from tests.cli.watch.messages import agent, call, message

from .harness.broker import Broker
from .harness.collector import KafkaCollector, attributes_of
from .harness.process import Program, wait_until
from .harness.prometheus import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC = "spans"
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
CALLS = 6
TRIPS = CALLS - 1
"""Of a trace that loops: all calls but the first."""


class Watcher(Program):
    """`otel-loopguard watch --kafka`, whose metrics and logs go to the collector."""

    def __init__(self, folder: Path, name: str, broker: Broker, collector: KafkaCollector) -> None:
        options = ("--window", "2", "--kafka-config", "heartbeat.interval.ms=300")
        settings = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "500"}
        super().__init__(
            [*COMMAND, "watch", "--kafka", broker.address, TOPIC, *options],
            folder / f"{name}.log",
            environment({**collector.otlp_environment(), **settings}),
            broker.port,
        )


class Scene(NamedTuple):
    """The programs."""

    broker: Broker
    collector: KafkaCollector
    prometheus: Prometheus
    watchers: list[Watcher]

    def send(self, service: str, traces: int, *, looping: bool) -> None:
        """Send the spans of agents to the collector, the agent's last, as a program does."""
        with grpc.insecure_channel(f"127.0.0.1:{self.collector.grpc}") as channel:
            export = channel.unary_unary(EXPORT)
            for trace in (uuid.uuid4().int for _ in range(traces)):
                run = agent(99, trace=trace)
                calls = [
                    call(number, trace=trace, parent=99, arguments=f'{{"q": {0 if looping else number}}}')
                    for number in range(1, CALLS + 1)
                ]
                for one in (*calls, run):
                    export(message(one, service=service).SerializeToString(), timeout=30)

    def trips(self, service: str) -> float:
        """The trips of a service in Prometheus, over all consumers."""
        return self.prometheus.by("job", f'loopguard_trips_total{{job="{service}"}}').get(service, 0)

    def recorded(self, service: str) -> list[tuple[str, str]]:
        """The trace and the place in its turn of each trip in the collector's file."""
        lines = [
            json.loads(line)
            for path in self.collector.state.glob("logs/*.jsonl")
            for line in path.read_text().splitlines()
        ]
        return [
            (record["traceId"], attributes_of(record)[semconv.CALL_INDEX])
            for line in lines
            for resource in line["resourceLogs"]
            if attributes_of(resource["resource"])["service.name"] == service
            for scope in resource["scopeLogs"]
            for record in scope["logRecords"]
        ]

    def all_committed(self) -> bool:
        """Return True if no message is left to be read."""
        return self.broker.committed("otel-loopguard", TOPIC) == self.broker.ends(TOPIC)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Everything is started; a topic with four partitions."""
    folder = tmp_path_factory.mktemp("kafka")
    with ExitStack() as stopping:
        broker = Broker(folder)
        collector = KafkaCollector(folder, broker, TOPIC)
        prometheus = Prometheus(folder, collector)
        broker.format()
        for program in (broker, collector, prometheus):
            stopping.callback(program.stop)
            program.start()
        for program in (broker, collector, prometheus):
            program.wait_ready()
        broker.make_topic(TOPIC, partitions=4)
        watchers = [Watcher(folder, name, broker, collector) for name in ("first", "second")]
        for watcher in watchers:
            stopping.callback(watcher.stop)
            watcher.start()
        wait_until("both have partitions", lambda: broker.readers("otel-loopguard") == len(watchers))
        yield Scene(broker, collector, prometheus, watchers)


def test_trips_of_two_consumers_are_exact(scene: Scene) -> None:
    """Each loop is found once, by one consumer; agents that work have no trip."""
    scene.send("looping", 30, looping=True)
    scene.send("working", 30, looping=False)

    wait_until("all trips are counted", lambda: scene.trips("looping") == 30 * TRIPS)
    wait_until("all messages are committed", scene.all_committed)
    assert scene.trips("looping") == 30 * TRIPS
    assert scene.trips("working") == 0
    assert len(set(scene.recorded("looping"))) == len(scene.recorded("looping")) == 30 * TRIPS
    by_consumer = scene.prometheus.by("instance", 'loopguard_trips_total{job="looping"}')
    assert len(by_consumer) == 2


def test_a_broker_that_is_killed_and_restarted_loses_no_trip(scene: Scene) -> None:
    """Spans wait in the collector's queue; a trip is counted again only if its message had not been committed."""
    scene.send("outage", 10, looping=True)
    scene.broker.kill()
    scene.send("outage", 10, looping=True)
    scene.broker.start()

    wait_until("all trips are recorded", lambda: len(set(scene.recorded("outage"))) == 20 * TRIPS, seconds=60)
    wait_until("all messages are committed", scene.all_committed)
    wait_until("all trips are counted", lambda: scene.trips("outage") >= 20 * TRIPS)
    for watcher in scene.watchers:
        lines = [line for line in watcher.log().splitlines() if "Kafka: " in line]
        assert 1 <= len(lines) <= 10, lines  # one for each kind of error, and not one for each attempt
