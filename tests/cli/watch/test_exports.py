"""Many services, one exporter: all resources in one export, zeros first, and nothing left behind at the end."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from benchmarks.telemetry import KeptMetrics
from otel_loopguard.cli.watch.exports import Exports
from otel_loopguard.shield import Shield
from tests.stack.harness.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


class Counting(KeptMetrics):
    """Keeps the sizes of all exports."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.exported = Event()
        self.is_over = False

    def export(self, metrics_data: Any, *_: Any, **__: Any) -> Any:
        """Keep it."""
        self.sizes.append(len(metrics_data.resource_metrics))
        self.exported.set()
        return super().export(metrics_data)

    def shutdown(self, *_: Any, **__: Any) -> None:
        """Note it."""
        self.is_over = True


def add_service(outlet: Exports, number: int) -> Any:
    """Add a service, and return a counter of it."""
    counter = outlet.pair({"service.name": f"s{number}"}).meters.get_meter("made").create_counter("calls")
    counter.add(0)
    return counter


def test_a_new_service_is_exported_before_its_first_trip() -> None:
    """Prometheus sees an increase only after it has seen a zero. The interval is far longer than this test."""
    exporter = Counting()
    outlet = Exports([exporter], [], Shield(), interval=3600)
    outlet.start()
    add_service(outlet, 1)
    outlet.export_soon()
    assert exporter.exported.wait(30)
    outlet.close()


def test_all_services_share_the_exporter() -> None:
    """They are in few messages, and none of these has too many of them for a collector."""
    exporter = Counting()
    outlet = Exports([exporter], [], Shield(), interval=3600)
    outlet.start()
    for number in range(45):
        add_service(outlet, number)
    outlet.close()

    assert exporter.sizes == [20, 20, 5]


def test_the_end_exports_all_that_is_left() -> None:
    """The exporter is shut down after it."""
    exporter = Counting()
    outlet = Exports([exporter], [], Shield(), interval=3600)
    outlet.start()
    counter = add_service(outlet, 1)
    counter.add(7)
    outlet.close()

    (point,) = exporter.data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    assert point.value == 7
    assert exporter.is_over


class Interrupted(Counting):
    """Has something happen during its first export."""

    during: Callable[[], None] | None = None

    def export(self, metrics_data: Any, *_: Any, **__: Any) -> Any:
        """Keep it."""
        during, self.during = self.during, None
        if during is not None:
            during()
        return super().export(metrics_data)


def test_the_end_exports_what_came_during_an_export() -> None:
    """The watcher is stopped while it sends what it had collected before."""
    exporter = Interrupted()
    outlet = Exports([exporter], [], Shield(), interval=3600)
    counter = add_service(outlet, 1)
    closing = Thread(target=outlet.close)

    def close() -> None:
        counter.add(7)
        closing.start()
        wait_until("it is closed", lambda: outlet._closed)

    exporter.during = close
    outlet.start()
    outlet.export_soon()
    assert exporter.exported.wait(30)
    closing.join()

    (point,) = exporter.data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    assert point.value == 7


def test_without_a_start_the_end_exports_nothing() -> None:
    """A watcher that cannot listen ends at once, though no collector answers."""
    exporter = Counting()
    outlet = Exports([exporter], [], Shield(), interval=3600)
    add_service(outlet, 1)
    outlet.close()

    assert exporter.sizes == []


def test_a_fault_of_one_exporter_keeps_no_other_from_its_export() -> None:
    """It is counted, and the thread goes on."""
    faults: list[str] = []
    broken, exporter = Counting(), Counting()
    broken.export = lambda *_: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    outlet = Exports([broken, exporter], [], Shield(faults.append), interval=3600)
    outlet.start()
    add_service(outlet, 1)
    outlet.close()

    assert exporter.sizes == [1]
    assert faults == ["watch.export"]
