"""The number of time series of an instance, as Prometheus counts them: each bucket of a histogram is one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .harness.agent import run_agent

if TYPE_CHECKING:
    from collections.abc import Callable

    from .harness.collector import Collector

MOST_AT_START = 101
"""Eleven of them are the buckets of ``gen_ai.invoke_agent.inference_calls``, which the conventions ask for. Five are of
the requests of the agent's model, which is read whatever its client."""


def test_an_instance_has_few_series_after_its_first_turn(make_collector: Callable[..., Collector]) -> None:
    """One turn of one tool, under the default policy."""
    collector = make_collector()
    run_agent(collector, "--working", service="new")
    series = re.findall(r'^(\w+)\{.*job="new"', collector.exposition(), re.MULTILINE)

    assert {"loopguard_trips_total", "loopguard_turn_tool_calls_bucket", "target_info"} <= set(series)
    assert len(series) <= MOST_AT_START
