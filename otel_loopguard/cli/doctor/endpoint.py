"""Check that a collector answers at an endpoint: with an empty request over HTTP, a connection for gRPC."""

from __future__ import annotations

import os
import socket
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from opentelemetry.util.re import parse_env_headers

from otel_loopguard.cli.doctor.findings import Finding, finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SECONDS = 3.0


def of_exporters(exporters: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Find the exporters whose endpoint does not answer, or refuses."""
    for endpoint, grpc in dict.fromkeys((one["endpoint"], one["grpc"]) for one in exporters if one["endpoint"]):
        found = _connect(endpoint) if grpc or not endpoint.startswith(("http://", "https://")) else _post(endpoint)
        if found is not None:
            yield found


def _connect(endpoint: str) -> Finding | None:
    parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    if parts.hostname is None or parts.port is None:
        return None  # a Unix socket, or a name that only gRPC resolves
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=_SECONDS).close()
    except OSError as error:
        return finding("endpoint-silent", endpoint=endpoint, reason=error.strerror or error)
    return None


def _post(endpoint: str) -> Finding | None:
    """Send an empty export, which is valid and stores nothing."""
    given = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    headers = {"Content-Type": "application/x-protobuf", **parse_env_headers(given, liberal=True)}
    request = Request(endpoint, data=b"", headers=headers, method="POST")  # noqa: S310 - http and https only, see above
    try:
        with urlopen(request, timeout=_SECONDS):  # noqa: S310 - as above
            return None
    except HTTPError as error:
        return finding("endpoint-refuses", endpoint=endpoint, status=f"{error.code} {error.reason}")
    except URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        return finding("endpoint-silent", endpoint=endpoint, reason=reason)
    except (OSError, HTTPException) as error:
        return finding("endpoint-silent", endpoint=endpoint, reason=type(error).__name__)
