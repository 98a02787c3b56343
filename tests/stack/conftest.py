"""The running stack, as fixtures.

``stack`` is one collector and one Prometheus for all tests that do no harm to them; each test there is a service with a
name of its own. Tests that stop, starve or configure a program make their own with ``make_collector``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from .harness.application import Application
from .harness.collector import Collector
from .harness.prometheus import Prometheus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Stack(NamedTuple):
    """What runs."""

    collector: Collector
    prometheus: Prometheus


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One collector and one Prometheus that scrapes it."""
    folder = tmp_path_factory.mktemp("stack")
    collector = Collector(folder)
    prometheus = Prometheus(folder, collector)
    running = Stack(collector, prometheus)
    try:
        for program in running:
            program.start()
        for program in running:
            program.wait_ready()
        yield running
    finally:
        for program in running:
            program.stop()


@pytest.fixture
def make_collector(tmp_path: Path) -> Iterator[Callable[..., Collector]]:
    """Starts a collector with settings of its own."""
    started: list[Collector] = []

    def make(*, tempo: bool = False, **settings: str) -> Collector:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        collector = Collector(folder, tempo=tempo, **settings)
        started.append(collector)
        collector.start()
        collector.wait_ready()
        return collector

    yield make
    for each in started:
        each.stop()


@pytest.fixture
def make_application() -> Iterator[Callable[..., Application]]:
    """Starts applications that export to a collector."""
    started: list[Application] = []

    def make(collector: Collector, service: str = "agent", **settings: object) -> Application:
        started.append(Application(collector, service, **settings))  # type: ignore[arg-type]
        return started[-1]

    yield make
    for each in started:
        each.close()
