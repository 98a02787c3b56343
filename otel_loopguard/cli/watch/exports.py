"""Export the metrics and logs of many services, each under a resource of its own.

A provider of the SDK has one resource, and its periodic reader a thread and a connection. So each service has a pair of
providers here, and one thread exports them all. The SDK's environment variables name the exporters and their settings.
"""

from __future__ import annotations

import os
import threading
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, MetricsData
from opentelemetry.sdk.resources import Resource

from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_loopguard.shield import Shield

_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_INTERVAL_MILLISECONDS = 60_000
_SERVICES_PER_EXPORT = 20
"""Few enough for one message: a collector may refuse one of over 4 MB."""
_LOG_QUEUE = "OTEL_BLRP_MAX_QUEUE_SIZE"
_MOST_LOGS = 20_000
"""Log records that may wait for their export. The SDK's own default, 2048, is for one program."""
_BY_PROTOCOL = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}


class Pair(NamedTuple):
    """The providers of one resource."""

    meters: MeterProvider
    loggers: LoggerProvider


class Exports:
    """The pairs of providers of all services, and the thread that exports their metrics."""

    def __init__(self, metrics: list[Any], logs: list[Any], shield: Shield, *, interval: float) -> None:
        """``metrics`` and ``logs`` are exporters of the SDK. ``interval`` is the time between exports, in seconds."""
        self._metrics = metrics
        self._log_processors = [BatchLogRecordProcessor(one, max_queue_size=_most_logs()) for one in logs]
        self._shield = shield
        self._interval = interval
        self._pairs: list[tuple[Pair, list[_Reader]]] = []
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="loopguard-watch-export", daemon=True)

    def start(self) -> None:
        """Start the thread, which exports from now on."""
        self._thread.start()

    def pair(self, attributes: Mapping[str, str]) -> Pair:
        """Return new providers for a resource with these attributes."""
        resource = Resource(attributes)
        readers = [_Reader(exporter) for exporter in self._metrics]
        pair = Pair(MeterProvider(readers, resource, shutdown_on_exit=False), LoggerProvider(resource, False))  # noqa: FBT003 - the name differs between versions
        for processor in self._log_processors:
            pair.loggers.add_log_record_processor(processor)
        self._pairs.append((pair, readers))
        return pair

    def export_soon(self) -> None:
        """Export all metrics at once, so that the counters of a new service are seen at zero first."""
        self._wake.set()

    def close(self) -> None:
        """Export what is left, and end. If it was never started, no metrics are exported."""
        self._closed = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        for processor in self._log_processors:
            with self._shield("watch.export"):
                processor.shutdown()  # type: ignore[no-untyped-call]  # the SDK has no hints there
        for exporter in self._metrics:
            with self._shield("watch.export"):
                exporter.shutdown()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._wake.wait(self._interval)
            self._wake.clear()
            is_last = self._closed  # read before the export: if it is closed during one, another one follows
            self._export()

    def _export(self) -> None:
        pairs = list(self._pairs)
        for number, exporter in enumerate(self._metrics):
            with self._shield("watch.export"):
                for first in range(0, len(pairs), _SERVICES_PER_EXPORT):
                    some = pairs[first : first + _SERVICES_PER_EXPORT]
                    found = [resource for _, readers in some for resource in readers[number].collected()]
                    if found:
                        exporter.export(MetricsData(found))


class _Reader(MetricReader):
    """Collects the metrics of one provider, but only when ``collected`` is called."""

    def __init__(self, exporter: Any) -> None:
        # The SDK's periodic reader does the same: the exporter has these settings from the environment.
        super().__init__(exporter._preferred_temporality, exporter._preferred_aggregation)  # noqa: SLF001 - see above
        self._collected: list[Any] = []

    def collected(self) -> list[Any]:
        """Collect the metrics now, and return them, with their resource."""
        self._collected = []
        self.collect()
        return self._collected

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 0, **_: Any) -> None:  # noqa: ARG002 - the SDK's signature
        self._collected = list(metrics_data.resource_metrics)

    def shutdown(self, timeout_millis: float = 0, **_: Any) -> None:
        """Do nothing: the exporter is shared."""


def exports(environ: Mapping[str, str], shield: Shield) -> Exports:
    """Return the exports with the exporters of the environment. Raise ``LoopGuardError`` if one does not exist."""
    metrics, logs = (list(_exporters(environ, signal)) for signal in ("metrics", "logs"))
    text = environ.get(_INTERVAL, "")
    interval = float(text) if text.replace(".", "", 1).isdecimal() else _INTERVAL_MILLISECONDS
    return Exports(metrics, logs, shield, interval=max(interval, 1.0) / 1e3)


def _exporters(environ: Mapping[str, str], signal: str) -> Iterator[Any]:
    upper = signal.upper()
    variable, group = f"OTEL_{upper}_EXPORTER", f"opentelemetry_{signal}_exporter"
    for given in environ.get(variable, "otlp").split(","):
        name = given.strip()
        if name in {"", "none"}:
            continue
        if name == "otlp":
            by_signal, by_all = f"OTEL_EXPORTER_OTLP_{upper}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"
            protocol = environ.get(by_signal) or environ.get(by_all) or "grpc"
            if protocol not in _BY_PROTOCOL:
                raise LoopGuardError(
                    f"{by_signal if environ.get(by_signal) else by_all}: there is no protocol {protocol!r}; set one of "
                    f"{', '.join(_BY_PROTOCOL)}"
                )
            name = _BY_PROTOCOL[protocol]
        known = entry_points(group=group)
        try:
            yield known[name].load()()
        except KeyError:
            names = ", ".join(sorted({one.name for one in known} | {"none"}))
            raise LoopGuardError(f"{variable}: there is no exporter {name!r}; set one of {names}") from None


def _most_logs() -> int | None:
    return None if os.environ.get(_LOG_QUEUE) else _MOST_LOGS
