"""The collector sends the spans of agents in other languages to a watcher, and gets metrics and logs of trips back."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import grpc  # type: ignore[import-untyped]  # the package has no type hints
import pytest

from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.watch.address import ListenAddress
from otel_loopguard.cli.watch.grpc_receiver import GrpcReceiver
from otel_loopguard.cli.watch.live import LiveJudge
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.shield import Shield
from tests.cli.processes import environment
from tests.cli.watch.messages import Kept, agent, call, message, vercel_call

from .harness.collector import WatchCollector
from .harness.process import Program, free_ports, wait_until
from .harness.prometheus import Prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData


EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


class Watcher(Program):
    """`otel-loopguard watch --otlp`, which exports to a collector."""

    def __init__(self, folder: Path, port: int, collector: WatchCollector) -> None:
        place = f"127.0.0.1:{port}"
        command = [sys.executable, "-m", "otel_loopguard.cli.main", "watch", "--otlp", place, "--window", "3"]
        exports = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_LOGS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "500"}
        settings = environment({**exports, **collector.otlp_environment(), "OTEL_BLRP_SCHEDULE_DELAY": "500"})
        super().__init__(command, folder / "watcher.log", settings, port)


class Scene:
    """A collector, a watcher and a Prometheus, and a client that exports spans as an SDK does."""

    def __init__(self, folder: Path, stopping: ExitStack) -> None:
        (port,) = free_ports(1)
        self.collector = WatchCollector(folder, f"127.0.0.1:{port}")
        self.watcher = Watcher(folder, port, self.collector)
        self.prometheus = Prometheus(folder, self.collector)
        for each in (self.collector, self.watcher, self.prometheus):
            stopping.callback(each.stop)
            each.start()
        for each in (self.collector, self.watcher, self.prometheus):
            each.wait_ready()
        channel = stopping.enter_context(grpc.insecure_channel(f"127.0.0.1:{self.collector.grpc}"))
        self._export = channel.unary_unary(EXPORT)

    def send(self, *messages: TracesData) -> None:
        """Export these messages."""
        for each in messages:
            self._export(each.SerializeToString(), timeout=30)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Two services in other languages: one loops in two traces, the other works."""
    with ExitStack() as stopping:
        made = Scene(tmp_path_factory.mktemp("watch"), stopping)
        looping = [vercel_call(number, trace=1, parent=99) for number in range(1, 11)]
        # The agent's span ends last, and each call leaves by itself.
        made.send(*(message(one, service="node-agent", namespace="shop") for one in looping))
        made.send(message(agent(99, trace=1), service="node-agent", namespace="shop"))
        made.send(*(message(call(number, trace=2), service="go-agent") for number in range(1, 6)))
        working = [call(number, trace=3, arguments=f'{{"q":"{"abcdefgh"[number]}"}}') for number in range(1, 8)]
        made.send(message(*working, service="java-agent"))
        yield made


def test_trips_of_agents_in_other_languages_are_exact_in_prometheus(scene: Scene) -> None:
    """Ten equal calls are nine trips, five are four, and seven different ones none. The job is the watched service."""
    query = "sum by (job, loopguard_verdict) (loopguard_trips_total) > 0"
    wanted = {
        ("shop/node-agent", "nudge"): 1,
        ("shop/node-agent", "block"): 7,
        ("shop/node-agent", "conclude"): 1,
        ("go-agent", "nudge"): 1,
        ("go-agent", "block"): 3,
    }

    def found() -> dict[tuple[str, str], float]:
        return {
            (one["metric"]["job"], one["metric"]["loopguard_verdict"]): float(one["value"][1])
            for one in scene.prometheus.query(query)
        }

    wait_until("all trips are there", lambda: sum(found().values()) >= sum(wanted.values()))
    assert found() == wanted
    assert scene.prometheus.by("job", "loopguard_tool_calls_total") == {
        "shop/node-agent": 10,
        "go-agent": 5,
        "java-agent": 7,
    }


def test_the_recording_rules_of_the_dashboards_see_the_services(scene: Scene) -> None:
    """The variable ``job`` of the dashboards lists them, and their trips are increases: they were first zero."""
    prometheus = scene.prometheus
    jobs = {"shop/node-agent", "go-agent", "java-agent"}
    wait_until("the jobs are listed", lambda: prometheus.by("job", "job:loopguard_reporting:present").keys() >= jobs)
    increases = "sum_over_time(job_mode_verdict_action:loopguard_trips:increase1m[1m])"
    wait_until("the trips are increases", lambda: prometheus.by("job", increases).keys() >= jobs - {"java-agent"})


def test_the_log_records_of_trips_come_to_the_file(scene: Scene) -> None:
    """As those of guarded programs do, with the service, the turn and the agent's span."""
    path = scene.collector.state / "logs" / "trips.jsonl"
    wait_until("13 records", lambda: path.exists() and path.read_text().count('"loopguard.mode"') == 13)
    assert '{"stringValue":"agent_span"}' in path.read_text()
    assert '{"stringValue":"node-agent"}' in path.read_text()


def test_the_collector_kept_nothing_back(scene: Scene) -> None:
    """No message was refused for good."""
    assert not scene.collector.own_metric("otelcol_exporter_send_failed_spans")


def test_a_collector_that_is_refused_tries_again_and_loses_nothing(tmp_path: Path) -> None:
    """The judge is held until the queue is full and refuses. After it goes on, each span is judged once."""
    kept = Kept()
    judge = LiveJudge(PolicyJudge(Policy()), kept, Shield(), window=0.1, most_bytes=100_000)
    with ExitStack() as stopping:
        stopping.callback(judge.close)
        receiver = GrpcReceiver(ListenAddress("127.0.0.1", 0), judge)
        receiver.start()
        stopping.callback(receiver.stop)
        collector = QuickCollector(tmp_path, str(receiver.address))
        stopping.callback(collector.stop)
        collector.start()
        collector.wait_ready()
        channel = stopping.enter_context(grpc.insecure_channel(f"127.0.0.1:{collector.grpc}"))
        kept.hold()
        stopping.callback(kept.go_on.set)
        for number in range(1, 201):
            channel.unary_unary(EXPORT)(message(call(number)).SerializeToString(), timeout=30)
        wait_until("the queue is full", lambda: kept.refusals["full"] >= 2)
        kept.go_on.set()
        wait_until("all spans are judged", lambda: len(kept.calls) >= 200)

    assert len({one.call.span.span for one in kept.calls}) == len(kept.calls) == 200
    assert kept.fates == {"judged": 200}


class QuickCollector(WatchCollector):
    """Sends small messages at once, and tries again soon."""

    adding = (
        *WatchCollector.adding,
        *(
            f"yaml:exporters::otlp_grpc/watch::{setting}"
            for setting in (
                "sending_queue::batch::flush_timeout: 50ms",
                "sending_queue::batch::min_size: 1000",
                "sending_queue::batch::max_size: 2000",
                "retry_on_failure::initial_interval: 200ms",
            )
        ),
    )
