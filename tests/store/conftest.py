"""Real servers, as fixtures."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from .servers import Server, starting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_keys = (f"turn-{number}" for number in itertools.count())


@pytest.fixture
def key() -> str:
    """The key of a log that no other test uses."""
    return next(_keys)


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
