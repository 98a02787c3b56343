"""Make the providers of the demo's spans and metrics; with ``--otlp`` they send to a collector."""

from __future__ import annotations

import os
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from otel_loopguard.cli.doctor.endpoint import of_exporters
from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEFAULT = "http://localhost:4318"
_PORT_OF_GRPC = ":4317"


@contextmanager
def providers(endpoint: str | None) -> Iterator[tuple[TracerProvider, MeterProvider | None]]:
    """Make the providers of spans and metrics for a block. At its end they send what they still hold.

    With an ``endpoint`` of None nothing is sent. An empty one stands for that of the environment. Raise
    ``LoopGuardError`` if no collector answers there.
    """
    # The settings of a user's own programs do not apply here: the demo needs all spans.
    os.environ.pop("OTEL_SDK_DISABLED", None)
    if endpoint is None:
        yield TracerProvider(sampler=ALWAYS_ON), None
        return
    url = (endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or _DEFAULT).rstrip("/")
    url = url if "://" in url else f"http://{url}"
    grpc = (os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or ("grpc" if url.endswith(_PORT_OF_GRPC) else "")) == "grpc"
    places = (url, url) if grpc else (f"{url}/v1/traces", f"{url}/v1/metrics")
    for found in of_exporters([{"endpoint": places[0], "grpc": grpc, "signal": "traces"}]):
        raise LoopGuardError(
            f"{found.text} Start a collector there (`otel-loopguard stack` writes the files of one), "
            "or name another one: --otlp ENDPOINT"
        )
    package = f"opentelemetry.exporter.otlp.proto.{'grpc' if grpc else 'http'}"
    spans = import_module(f"{package}.trace_exporter").OTLPSpanExporter(endpoint=places[0])
    metrics = import_module(f"{package}.metric_exporter").OTLPMetricExporter(endpoint=places[1])
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "loopguard-demo")})
    tracers = TracerProvider(sampler=ALWAYS_ON, resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(spans))
    meters = MeterProvider([PeriodicExportingMetricReader(metrics)], resource=resource)
    try:
        yield tracers, meters
    finally:
        tracers.shutdown()
        meters.shutdown()
