"""Two collectors behind two balancers count what one collector counts, and keep traces whole."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml

from .harness.agent import run_agent
from .harness.collector import CONFIG_BALANCER, Balancer, Collector
from .harness.load_balancer import LoadBalancer
from .harness.process import wait_until
from .harness.prometheus import Prometheus
from .test_logs import records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .harness.application import Application

FILTERS = [each for name, each in yaml.safe_load(CONFIG_BALANCER.read_text())["processors"].items() if "/" in name]


class Several(NamedTuple):
    """A load balancer before two balancers before two collectors, and a Prometheus that reads the collectors."""

    entry: LoadBalancer
    balancers: list[Balancer]
    collectors: list[Collector]
    prometheus: Prometheus

    def holders(self, job: str, metric: str = "loopguard_trips_total") -> list[int]:
        """The numbers of the collectors that show this metric of a service."""
        series = re.compile(rf'^{metric}{{.*job="{job}"', re.MULTILINE)
        return [number for number, each in enumerate(self.collectors) if series.search(each.exposition())]

    def expect(self, job: str, *agents: Application, metrics: tuple[str, ...] = ("trips", "trip_events")) -> None:
        """Wait until Prometheus shows the trips of a service; no series of it may look like one that was reset."""
        made = sum(sum(each.trips.values()) for each in agents)
        for metric in metrics:
            total = f'sum(loopguard_{metric}_total{{job="{job}"}})'
            wait_until(f"{total} is {made}", partial(self._is, total, made))
        assert self._is(f'sum(resets(loopguard_trips_total{{job="{job}"}}[5m]))', 0)

    def _is(self, expression: str, expected: float) -> bool:
        return self.prometheus.value(expression) == expected


@contextmanager
def running(folder: Path) -> Iterator[Several]:
    """All of them, started."""
    with ExitStack() as stopping:
        places = [folder / name for name in ("first", "second", "balancer-1", "balancer-2", "prometheus")]
        for place in places:
            place.mkdir()
        collectors = [Collector(place) for place in places[:2]]
        balancers = [Balancer(place, *collectors) for place in places[2:4]]
        prometheus = Prometheus(places[4], *collectors)
        for program in (*collectors, *balancers, prometheus):
            stopping.callback(program.stop)
            program.start()
        for program in (*collectors, *balancers, prometheus):
            program.wait_ready()
        entry = LoadBalancer(*balancers)
        stopping.callback(entry.stop)
        yield Several(entry, balancers, collectors, prometheus)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Several]:
    """The programs, for tests that do no harm to them."""
    with running(tmp_path_factory.mktemp("several")) as programs:
        yield programs


@pytest.fixture
def harmed(tmp_path: Path) -> Iterator[Several]:
    """The programs, for a test that stops some of them."""
    with running(tmp_path) as programs:
        yield programs


def test_exports_that_alternate_are_counted_once(
    several: Several, make_application: Callable[..., Application]
) -> None:
    """Eight processes of a service send each export by the other balancer: each trip is counted once."""
    agents = [make_application(several.entry, "spread", protocol="http") for _ in range(8)]
    for _ in range(4):
        for agent in agents:
            agent.turn("cycle")
            agent.flush()
        several.expect("spread", *agents)

    assert several.holders("spread") == several.holders("spread", "loopguard_trip_events_total") == [0, 1]


def test_a_process_has_one_collector(several: Several, make_application: Callable[..., Application]) -> None:
    """All series of a process are at one collector, whichever balancer they came by."""
    agents = {
        f"service-{number}": make_application(several.entry, f"service-{number}", protocol="http")
        for number in range(6)
    }
    for _ in range(5):
        for agent in agents.values():
            agent.turn("cycle")
            agent.flush()
    for job, agent in agents.items():
        several.expect(job, agent)

    assert [len(several.holders(job)) for job in agents] == [1] * 6


def test_a_trace_is_whole_in_one_file(several: Several, make_application: Callable[..., Application]) -> None:
    """Spans that are exported one by one, by turns over both balancers, are in one file with their whole trace."""
    agent = make_application(several.entry, "whole", protocol="http")
    for _ in range(8):
        with agent.foreign.start_as_current_span("invoke_agent"):
            for _ in range(4):
                with agent.call() as span:
                    agent.trip(span, "cycle")
                agent.flush()

    def traces(collector: Collector) -> Counter[str]:
        return Counter(span["traceId"] for span in collector.file_spans("whole"))

    wait_until("32 spans", lambda: sum(traces(each).total() for each in several.collectors) == 32)
    first, second = map(traces, several.collectors)
    assert len(first.keys() | second.keys()) == 8
    assert set((first + second).values()) == {4}
    assert first.keys() & second.keys() == set()


def test_the_log_record_of_a_trip_is_at_the_collector_of_its_trace(several: Several) -> None:
    """Each trip's record is in one file, that of the collector that has the spans."""
    run = run_agent(several.balancers[0], "--stubborn", service="logged")
    made = sum(run.trips.values())
    wait_until(f"{made} records", lambda: sum(len(records(each, "logged")) for each in several.collectors) >= made)

    for collector in several.collectors:
        traces = {span["traceId"] for span in collector.file_spans("logged")}
        assert {record["traceId"] for record in records(collector, "logged")} <= traces
    assert sum(len(records(each, "logged")) for each in several.collectors) == made


def test_the_share_of_a_stopped_collector_is_delivered_later(
    harmed: Several, make_application: Callable[..., Application]
) -> None:
    """Spans and metrics of a collector that is being restarted wait in the balancers, and arrive once."""
    agent = make_application(harmed.entry, "waiting", protocol="http")
    harmed.collectors[1].stop()
    for _ in range(20):
        agent.turn("cycle")
        agent.flush()
    harmed.collectors[1].start()

    def spans() -> list[str]:
        return [span["spanId"] for each in harmed.collectors for span in each.file_spans("waiting")]

    wait_until("60 spans", lambda: len(spans()) >= 60)
    harmed.expect("waiting", agent)
    assert len(set(spans())) == len(spans()) == 60


def test_an_export_is_refused_for_both_collectors_or_for_none(
    harmed: Several, make_application: Callable[..., Application], tmp_path: Path
) -> None:
    """A balancer whose memory is full of what waits accepts nothing that it forwards to one collector only."""
    (tmp_path / "small").mkdir()
    small = Balancer(
        tmp_path / "small", *harmed.collectors, LOOPGUARD_MEMORY_LIMIT_MIB="60", LOOPGUARD_MEMORY_SPIKE_MIB="20"
    )
    harmed.collectors[1].stop()
    with ExitStack() as stopping:
        stopping.callback(small.stop)
        small.start()
        small.wait_ready()
        agent = make_application(small, patience=1)

        def refused() -> float:
            for _ in range(6):
                agent.foreign.start_span("chat", attributes={"gen_ai.prompt": "x" * 500_000}).end()
            agent.flush()
            return small.own_metric("otelcol_receiver_refused_spans")

        wait_until("spans are refused", refused)
        harmed.collectors[1].start()
        harmed.collectors[1].wait_ready()

        def delivered() -> float:
            return sum(each.own_metric("otelcol_receiver_accepted_spans") for each in harmed.collectors)

        accepted = small.own_metric("otelcol_receiver_accepted_spans")
        wait_until(f"{accepted} spans are delivered", lambda: delivered() >= accepted)
        assert delivered() == accepted


def test_a_series_goes_on_at_another_collector_after_a_restart(
    harmed: Several, make_application: Callable[..., Application], tmp_path: Path
) -> None:
    """The split is changed while balancers and collectors are stopped: no series looks like one that was reset."""
    agent = make_application(harmed.entry, "moved", protocol="http")
    agent.turn("cycle", "cycle")
    agent.flush()
    harmed.expect("moved", agent)
    (before,) = harmed.holders("moved")

    for program in (*harmed.balancers, *harmed.collectors):
        program.stop()
    (tmp_path / "changed").mkdir()
    changed = Balancer(tmp_path / "changed", *reversed(harmed.collectors))
    harmed.entry.collectors[:] = [changed]
    with ExitStack() as stopping:
        stopping.callback(changed.stop)
        for program in (*harmed.collectors, changed):
            program.start()
            program.wait_ready()
        agent.turn("cycle")
        agent.flush()

        harmed.expect("moved", agent, metrics=("trips",))
        assert harmed.holders("moved") == [1 - before]
        agent.close()


@pytest.mark.parametrize("conditions", ["trace_conditions", "metric_conditions", "log_conditions"])
def test_every_digit_has_one_collector(conditions: str) -> None:
    """The filters share the hexadecimal digits: none is sent to two collectors, and none to no collector."""
    kept = [digits for each in FILTERS for digits in re.findall(r'"(\[\S+\]\$)"', each[conditions][0])]

    assert [sum(bool(re.search(digits, end)) for digits in kept) for end in "0123456789abcdef"] == [1] * 16
