"""Send the demo's telemetry to a collector (``--otlp``), after a check that one answers."""

from __future__ import annotations

import os
from importlib import import_module
from typing import NamedTuple

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from otel_loopguard.cli.doctor.endpoint import of_exporters
from otel_loopguard.errors import LoopGuardError

_DEFAULT = "http://localhost:4318"
_SERVICE = "loopguard-demo"
_PORT_OF_GRPC = ":4317"
_EVERY_MILLISECONDS = 5_000


class DemoProviders(NamedTuple):
    """Providers that send to a collector."""

    tracers: TracerProvider
    meters: MeterProvider

    def close(self) -> None:
        """Send the rest, and end."""
        self.tracers.shutdown()
        self.meters.shutdown()


def open_exports(endpoint: str) -> DemoProviders:
    """Make providers for this endpoint, or the one of the environment; raise an error if no collector answers there."""
    url = (endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or _DEFAULT).rstrip("/")
    url = url if "://" in url else f"http://{url}"
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or ("grpc" if url.endswith(_PORT_OF_GRPC) else "http")
    grpc = protocol == "grpc"
    places = (url, url) if grpc else (f"{url}/v1/traces", f"{url}/v1/metrics")
    for found in of_exporters([{"endpoint": places[0], "grpc": grpc, "signal": "traces"}]):
        raise LoopGuardError(
            f"{found.text} Start a collector there (`otel-loopguard stack` writes the files of one), "
            "or name another one: --otlp ENDPOINT"
        )
    package = f"opentelemetry.exporter.otlp.proto.{'grpc' if grpc else 'http'}"
    more = {"insecure": not url.startswith("https")} if grpc else {}
    spans = import_module(f"{package}.trace_exporter").OTLPSpanExporter(endpoint=places[0], **more)
    metrics = import_module(f"{package}.metric_exporter").OTLPMetricExporter(endpoint=places[1], **more)
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", _SERVICE)})
    tracers = TracerProvider(sampler=ALWAYS_ON, resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(spans))
    reader = PeriodicExportingMetricReader(metrics, export_interval_millis=_EVERY_MILLISECONDS)
    return DemoProviders(tracers, MeterProvider([reader], resource=resource))
