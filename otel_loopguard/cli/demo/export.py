"""Send the demo's telemetry to a collector (``--otlp``), after a check that one answers."""

from __future__ import annotations

import os
from typing import NamedTuple
from urllib.parse import urlsplit

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from otel_loopguard.cli.doctor.endpoint import of_exporters
from otel_loopguard.errors import LoopGuardError

DEFAULT = "http://localhost:4318"
_SERVICE = "loopguard-demo"
_GRPC_PORT = 4317
_EVERY_MILLISECONDS = 5_000


class Exports(NamedTuple):
    """Providers that send to a collector."""

    tracers: TracerProvider
    meters: MeterProvider

    def close(self) -> None:
        """Send the rest, and end."""
        self.tracers.shutdown()
        self.meters.shutdown()


def open_exports(endpoint: str | None) -> Exports:
    """Make providers for this endpoint; raise an error if no collector answers there."""
    url = endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or DEFAULT
    if "://" not in url:
        url = f"http://{url}"
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 4318)
    except ValueError as error:
        raise LoopGuardError(f"--otlp {url} is no address: {error}; such as {DEFAULT}") from error
    if host is None or parts.scheme not in ("http", "https"):
        raise LoopGuardError(f"--otlp {url} is no address; such as {DEFAULT}, or http://localhost:4317 for gRPC")
    url, grpc = url.rstrip("/"), _is_grpc(port)
    for found in of_exporters([{"endpoint": url if grpc else f"{url}/v1/traces", "grpc": grpc, "signal": "traces"}]):
        raise LoopGuardError(
            f"{found.text} Start a collector there (`otel-loopguard stack` writes the files of one), "
            "or name another one: --otlp ENDPOINT"
        )
    return _providers(url, grpc=grpc)


def _is_grpc(port: int) -> bool:
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    return protocol == "grpc" or (not protocol and port == _GRPC_PORT)


def _providers(url: str, *, grpc: bool) -> Exports:
    if grpc:
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (  # noqa: PLC0415 - heavy, and rarely used
            OTLPMetricExporter as GrpcMetrics,
        )
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - as above
            OTLPSpanExporter as GrpcSpans,
        )

        plain = not url.startswith("https")
        return _with(GrpcSpans(endpoint=url, insecure=plain), GrpcMetrics(endpoint=url, insecure=plain))
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415 - as above
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - as above

    return _with(OTLPSpanExporter(f"{url}/v1/traces"), OTLPMetricExporter(f"{url}/v1/metrics"))


def _with(spans: object, metrics: object) -> Exports:
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", _SERVICE)})
    tracers = TracerProvider(sampler=ALWAYS_ON, resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(spans))  # type: ignore[arg-type]  # the exporters of gRPC and HTTP share no type
    reader = PeriodicExportingMetricReader(metrics, export_interval_millis=_EVERY_MILLISECONDS)  # type: ignore[arg-type]  # the exporters of gRPC and HTTP share no type
    return Exports(tracers, MeterProvider([reader], resource=resource))
