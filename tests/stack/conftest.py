"""The running stack, as fixtures.

``stack`` is one collector, one Prometheus and one trace back end for all tests that do no harm to them; each test there
is a service with a name of its own. Tests that stop, starve or configure a program make their own.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import pytest

from .harness.application import Application
from .harness.collector import Collector
from .harness.prometheus import Prometheus
from .harness.tempo import Tempo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Stack(NamedTuple):
    """The running programs."""

    tempo: Tempo
    collector: Collector
    prometheus: Prometheus


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One collector, one Prometheus that scrapes it, one back end that gets its traces."""
    folder = tmp_path_factory.mktemp("stack")
    tempo = Tempo()
    collector = Collector(folder, tempo=True, **tempo.settings)
    running = Stack(tempo, collector, Prometheus(folder, collector))
    with ExitStack() as stopping:
        for each in running:
            stopping.callback(each.stop)
            each.start()
        collector.wait_ready()
        running.prometheus.wait_ready()
        yield running


@pytest.fixture
def make_collector(tmp_path: Path) -> Iterator[Callable[..., Collector]]:
    """Starts collectors with settings of their own."""
    with ExitStack() as stopping:

        def make(*, tempo: bool = False, **settings: str) -> Collector:
            folder = tmp_path / f"collector-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            collector = Collector(folder, tempo=tempo, **settings)
            stopping.callback(collector.stop)
            collector.start()
            collector.wait_ready()
            return collector

        yield make


@pytest.fixture
def make_application() -> Iterator[Callable[..., Application]]:
    """Starts applications that export to a collector."""
    with ExitStack() as stopping:

        def make(collector: Collector, service: str = "agent", **settings: object) -> Application:
            application = Application(collector, service, **settings)  # type: ignore[arg-type]
            stopping.callback(application.close)
            return application

        yield make
