"""Trips counted by applications and trips counted from their span events are the same number, exactly."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from .harness.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Stack
    from .harness.application import Application

MODES = ("generic_repeat", "ping_pong", "cycle")


def expect_trips(stack: Stack, job: str, *applications: Application) -> None:
    """Wait until Prometheus shows all trips of a service by mode, from metrics and from span events."""
    made = sum((each.trips for each in applications), Counter())
    for metric in ("loopguard_trips_total", "loopguard_trip_events_total"):
        selected = f'{metric}{{job="{job}"}}'
        seen = partial(stack.prometheus.by, "loopguard_mode", selected)
        wait_until(f"{selected} shows {made}, now {seen()}", lambda: seen() == made)  # noqa: B023


def test_metrics_and_events_count_every_trip(stack: Stack, make_application: Callable[..., Application]) -> None:
    """Both ways give what the application made, by mode."""
    agent = make_application(stack.collector, "counted")
    for number in range(60):
        agent.turn(*([MODES[number % 3]] if number % 2 else []))
    agent.flush()

    expect_trips(stack, "counted", agent)
