"""Panels on the guard itself and on its telemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards import names, queries
from dashboards.panels import over_time, runbook

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models.dashboard import Panel

NO_CALLS = "No tool call reported: is the service instrumented, is the collector up?"


def guard() -> list[Builder[Panel]]:
    """Panels on the cost and the faults of the guard."""
    return [
        over_time(
            "Duration of a check",
            "The time that the guard adds to a tool call.",
            queries.CHECK_DURATION,
            unit="s",
            steps=[(None, "green"), (0.001, "red")],
            empty=NO_CALLS,
        ),
        over_time(
            "Errors of the guard",
            "Internal faults in 15 minutes, by site. The tool still runs; that call is not protected.",
            {f"{{{{{names.SITE}}}}}": queries.INTERNAL_ERRORS},
            steps=[(None, "green"), (1, "red")],
            empty="None",
        ).links([runbook("guard-errors")]),
        over_time(
            "Calls to unknown tools",
            "Calls in 5 minutes whose tool is not registered: the model invented the name.",
            {f"{{{{{names.JOB}}}}}": queries.UNKNOWN_CALLS},
            empty="None",
        ).links([runbook("unknown-tools")]),
    ]


def telemetry() -> list[Builder[Panel]]:
    """Panels on the way of spans and metrics from the applications to the back ends."""
    return [
        over_time(
            "Trips by source of the count",
            "Applications count their trips; the collector counts the events on their spans. Fewer events than "
            "metrics: spans are sampled or lost. Metrics without events: traces are not exported.",
            queries.TRIPS_BY_SOURCE,
            empty="No loop in this time range",
        ),
        over_time(
            "Collector",
            "Spans in 5 minutes. Spans are refused when memory is short, and sent again. Traces wait for a decision "
            "until their root has ended.",
            queries.COLLECTOR,
            empty="The collector's own metrics are not scraped",
        ).links([runbook("collector-down")]),
        over_time(
            "Delivered spans",
            "Spans in 5 minutes, by exporter.",
            {"{{exporter}}": queries.DELIVERED},
            empty="The collector's own metrics are not scraped",
        ),
        over_time(
            "Waiting for the trace back end",
            "The size of the queue on disk. It grows while the back end is away. Data is lost only if it is full.",
            {"{{exporter}}": queries.QUEUED},
            unit="bytes",
            empty="No trace back end: the collector runs without collector-config-tempo.yaml",
        ),
    ]
