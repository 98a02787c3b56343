"""Real servers, as fixtures."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from .servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session", params=["redis", "valkey"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for all tests that do it no harm; each has logs of its own."""
    running = Server(tmp_path_factory.mktemp(request.param), kind=request.param)
    yield running
    running.kill()


@pytest.fixture
def make_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Starts servers with options of their own, to be killed, paused and filled."""
    with ExitStack() as stopping:

        def make(*options: str, **settings: str) -> Server:
            made = Server(tmp_path_factory.mktemp("server"), *options, **settings)
            stopping.callback(made.kill)
            return made

        yield make
