"""Each failure has a kind and a reason, and neither quotes what was sent."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest
from redis import exceptions

from otel_loopguard.store.failures import failure_of


def caused(cause):
    """An error of redis-py that was raised while another one was handled."""
    error = exceptions.ConnectionError("Error connecting to SECRET")
    error.__context__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (TimeoutError(), "timeout", "no answer within 50 ms"),
        (exceptions.TimeoutError("SECRET"), "timeout", "no answer within 50 ms"),
        (asyncio.QueueFull(), "queue_full", "too many calls"),
        (exceptions.OutOfMemoryError("SECRET"), "full", "it takes no writes"),
        (exceptions.ResponseError("MISCONF SECRET"), "full", "it takes no writes"),
        (exceptions.ReadOnlyError("SECRET"), "replica", "it is a replica"),
        (exceptions.AuthenticationError("SECRET"), "login", "it refuses the user"),
        (exceptions.NoPermissionError("SECRET"), "login", "it refuses the user"),
        (exceptions.MovedError("1 SECRET:7"), "cluster", "it is a node of a cluster"),
        (exceptions.ResponseError("MOVED 1 SECRET:7"), "cluster", "it is a node of a cluster"),
        (exceptions.BusyLoadingError("SECRET"), "busy", "it is not ready (LOADING)"),
        (exceptions.ResponseError("BUSY SECRET"), "busy", "it is not ready"),
        (exceptions.MasterDownError("SECRET"), "busy", "it is not ready (MASTERDOWN)"),
        (exceptions.SlotNotCoveredError("SECRET"), "busy", "it is not ready"),
        (exceptions.ResponseError("WRONGTYPE SECRET"), "error", "it answers with an error (WRONGTYPE)"),
        (caused(ssl.SSLError(1, "SECRET")), "tls", "TLS failed"),
        (caused(ConnectionRefusedError(111, "SECRET")), "connection", "no connection (Connection refused)"),
        (caused(OSError("Multiple exceptions: [Errno 111] SECRET")), "connection", "(Connection refused)"),
        (caused(socket.gaierror(-2, "Name or service not known")), "connection", "(Name or service not known)"),
        (caused(UnicodeError("SECRET")), "connection", "no connection (ConnectionError)"),
        (exceptions.RedisClusterException("SECRET"), "connection", "no connection (RedisClusterException)"),
    ],
)
def test_a_failure_has_a_kind_and_a_reason(error, kind, reason):
    found = failure_of(error, 0.05)
    assert found.kind == kind
    assert reason in found.reason
    assert "SECRET" not in found.reason
