"""An outage and its cost: for the agents (nothing) and for the telemetry (as much as the SDK's limits allow)."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from .harness.application import Application
from .harness.collector import Collector
from .harness.process import wait_until
from .harness.prometheus import Prometheus
from .harness.tempo import Tempo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TURNS_A_SECOND = 25
OUTAGE_SECONDS = 30
# Three calls make 7 spans: 30 s of them must find room, where the SDK's default has room for 2,048.
SPAN_QUEUE = 20_000


class Load:
    """An agent that works at a steady pace, every fifth turn looping."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.turns = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the turn."""
        self._end.set()
        self._thread.join(10)

    def _work(self) -> None:
        while not self._end.wait(1 / TURNS_A_SECOND):
            self.application.turn(*(["generic_repeat"] if self.turns % 5 == 0 else []))
            self.turns += 1


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[tuple[Tempo, Collector, Prometheus]]:
    """A stack that may be killed."""
    tempo = Tempo()
    collector = Collector(tmp_path, tempo=True, **tempo.settings)
    prometheus = Prometheus(tmp_path, collector)
    with ExitStack() as stopping:
        for each in (tempo, collector, prometheus):
            stopping.callback(each.stop)
            each.start()
        collector.wait_ready()
        prometheus.wait_ready()
        yield tempo, collector, prometheus


def test_in_an_outage_of_everything_no_call_waits_and_no_trip_is_lost(
    programs: tuple[Tempo, Collector, Prometheus],
) -> None:
    """The collector is killed for 30 s under load, Prometheus is restarted, and the back end is absent for a while."""
    tempo, collector, prometheus = programs
    load = Load(Application(collector, "survivor", span_queue=SPAN_QUEUE))
    load.start()
    time.sleep(2)
    collector.kill()
    turns, exports = load.turns, load.application.exports
    time.sleep(OUTAGE_SECONDS / 2)
    prometheus.stop()
    prometheus.start()
    time.sleep(OUTAGE_SECONDS / 2)
    turns, exports = load.turns - turns, load.application.exports - exports
    tempo.stop()
    collector.start()
    collector.wait_ready()
    time.sleep(3)
    tempo.start()
    time.sleep(2)
    load.stop()
    load.application.flush()

    made = load.application.trips
    trips = 'loopguard_trips_total{job="survivor"}'
    wait_until(f"{made} in Prometheus", lambda: prometheus.by("loopguard_mode", trips) == made)
    looping = load.application.looping_traces
    in_file = {span["traceId"] for span in collector.file_spans()} & looping
    wait_until("what the collector kept is in the back end", lambda: in_file <= set(tempo.spans()), seconds=45)
    print(f"{turns} turns during {exports} exports without an answer; {sum(made.values())} trips, all counted;")
    print(f"{len(in_file)} of {len(looping)} looping traces delivered")
    load.application.close()

    # If calls waited for the exporter there would be one turn, at most, for each of its attempts.
    assert turns > 10 * (exports + 1)
    # The SDK gives up on the batch it was sending after six attempts; the rest waits in its queue.
    assert len(in_file) > 0.9 * len(looping)


def test_traces_for_an_absent_back_end_survive_a_killed_collector(
    programs: tuple[Tempo, Collector, Prometheus],
) -> None:
    """The queue on disk is delivered once, after both programs are back."""
    tempo, collector, prometheus = programs
    tempo.stop()
    agent = Application(collector, "queued")
    for _ in range(20):
        agent.turn("cycle")
    agent.close()
    wait_until("the traces are in the file", lambda: len({s["traceId"] for s in collector.file_spans()}) == 20)
    wait_until("the queue is on disk", lambda: prometheus.value("sum(otelcol_exporter_queue_size)"))
    time.sleep(1)
    collector.kill()
    collector.start()
    collector.wait_ready()
    tempo.start()

    expected = dict.fromkeys(agent.looping_traces, 7)
    wait_until("20 whole traces in the back end", lambda: dict(tempo.spans()) == expected, seconds=45)
    assert tempo.duplicates() == 0
