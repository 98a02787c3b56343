"""Check that a collector answers at an endpoint: by an empty export over HTTP, or a TCP connection for gRPC."""

from __future__ import annotations

import os
import socket
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from opentelemetry.util.re import parse_env_headers

from otel_loopguard.cli.doctor.finding_kinds import Finding, finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SECONDS = 3.0
_PORT_OF_GRPC = 443
"""The port that gRPC takes for an address without one."""
_RESOLVED_BY_GRPC = ("unix:", "unix-abstract:", "dns:", "ipv4:", "ipv6:", "vsock:", "xds:")


def of_exporters(exporters: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Yield a finding for each server of these exporters that does not answer or refuses, or is no valid address."""
    faulty = set()
    rows = ((one["endpoint"], one["grpc"], one["signal"]) for one in exporters if one["endpoint"])
    for endpoint, grpc, signal in dict.fromkeys(rows):
        server = _address(endpoint)
        found = None if server in faulty else _connect(endpoint) if grpc else _post(endpoint, signal)
        if found is not None:
            faulty.add(server)
            yield found


def _connect(endpoint: str) -> Finding | None:
    if endpoint.startswith(_RESOLVED_BY_GRPC):
        return None
    host, port, reason = _address(endpoint)
    if reason is not None:
        return finding("endpoint-malformed", endpoint=endpoint, reason=reason)
    try:
        socket.create_connection((host, port or _PORT_OF_GRPC), timeout=_SECONDS).close()
    except (OSError, UnicodeError) as error:  # a label of the host that is too long is a UnicodeError
        if port is None:
            return finding("endpoint-malformed", endpoint=endpoint, reason=f"no port; gRPC takes {_PORT_OF_GRPC}")
        return finding("endpoint-silent", endpoint=endpoint, reason=getattr(error, "strerror", None) or error)
    return None


def _address(endpoint: str) -> tuple[str, int | None, str | None]:
    """Return host, port (None if it has none), and the reason why this is no address (None if it is one)."""
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return "", None, str(error)
    return host or "", port, None if host else "no host"


def _post(endpoint: str, signal: str) -> Finding | None:
    """Send an empty export, which is valid and stores nothing. Return what is wrong; None if it was taken."""
    _, _, reason = _address(endpoint)
    if not endpoint.startswith(("http://", "https://")):
        reason = "it begins with neither http:// nor https://"
    if reason is not None:
        return finding("endpoint-malformed", endpoint=endpoint, reason=reason)
    names = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
    given = next((found for name in names if (found := os.environ.get(name))), "")
    headers = {"Content-Type": "application/x-protobuf", **parse_env_headers(given, liberal=True)}
    request = Request(endpoint, data=b"", headers=headers, method="POST")  # noqa: S310 - http and https only, see above
    try:
        with urlopen(request, timeout=_SECONDS):  # noqa: S310 - as above
            return None
    except HTTPError as error:
        return finding("endpoint-refuses", endpoint=endpoint, status=f"{error.code} {error.reason}")
    except URLError as error:
        silence = getattr(error.reason, "strerror", None) or error.reason
        return finding("endpoint-silent", endpoint=endpoint, reason=silence)
    except (OSError, HTTPException) as error:
        return finding("endpoint-silent", endpoint=endpoint, reason=type(error).__name__)
