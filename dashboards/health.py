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
    """What the guard costs, and where it fails."""
    return [
        over_time(
            "Time a check takes",
            "What the guard adds to a tool call.",
            queries.CHECK_DURATION,
            unit="s",
            steps=[(None, "green"), (0.001, "red")],
            empty=NO_CALLS,
        ),
        over_time(
            "Errors of the guard",
            "Faults of ours in 15 minutes, by place. The tool runs all the same, unprotected for that call.",
            {f"{{{{{names.SITE}}}}}": queries.INTERNAL_ERRORS},
            steps=[(None, "green"), (1, "red")],
            empty="None",
        ).links([runbook("guard-errors")]),
        over_time(
            "Calls to unknown tools",
            "Calls in 5 minutes whose tool is not registered: the model made the name up.",
            {f"{{{{{names.JOB}}}}}": queries.UNKNOWN_CALLS},
            empty="None",
        ).links([runbook("unknown-tools")]),
    ]


def telemetry() -> list[Builder[Panel]]:
    """What becomes of what applications export."""
    return [
        over_time(
            "Trips, by who counted them",
            "The applications count their trips; the collector counts the events on their spans. Events below metrics: "
            "spans are sampled or lost on the way. Metrics without events: traces are not exported.",
            queries.TRIPS_BY_SOURCE,
            empty="No loop seen in this time range",
        ),
        over_time(
            "Collector",
            "Spans in 5 minutes; refused are those that found no memory, and came again. Traces wait for a decision "
            "until their root has ended.",
            queries.COLLECTOR,
            empty="The collector's own metrics are not scraped",
        ).links([runbook("collector-down")]),
        over_time(
            "Written and delivered",
            "Spans in 5 minutes, by where they went.",
            {"{{exporter}}": queries.DELIVERED},
            empty="The collector's own metrics are not scraped",
        ),
        over_time(
            "Waiting for the trace back end",
            "What the queue on disk holds. It grows while the back end is away, and nothing is lost until it is full.",
            {"{{exporter}}": queries.QUEUED},
            unit="bytes",
            empty="No trace back end: the collector runs without collector-config-tempo.yaml",
        ),
    ]
