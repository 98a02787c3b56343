"""Real servers, as fixtures."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from otel_loopguard.store import cell

from .servers import Relay, Server, starting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_keys = (f"turn-{number}" for number in itertools.count())


@pytest.fixture
def key() -> str:
    """The key of a log that no other test uses."""
    return next(_keys)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write again at once what could not be written, and look after messages only when a test does."""
    monkeypatch.setattr(cell, "RETRY_PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setattr(cell, "WATCH_PAUSES", ())


@pytest.fixture(scope="session", params=["redis-server", "valkey-server"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for all tests that do it no harm; each has logs of its own."""
    with starting(tmp_path_factory) as start:
        yield start(kind=request.param)


@pytest.fixture
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Starts servers with lines of configuration, to be killed, paused and filled."""
    with starting(tmp_path_factory) as start:
        yield start


@pytest.fixture
def relay(server: Server) -> Iterator[Relay]:
    """A relay before the server."""
    relay = Relay(server.port)
    yield relay
    relay.close()
