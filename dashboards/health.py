"""The panels about the guard itself: its cost, its faults, and where its counts come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dashboards import names, queries
from dashboards.panels import bars, lines, runbook

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models.dashboard import Panel

NOT_REPORTING: Final = (
    "no chosen service reports. Is it instrumented, is the collector up, has Prometheus loaded the recording rules?"
)
_NONE: Final = f"none, if *Tool calls by outcome* has data; else {NOT_REPORTING}"


def guard() -> list[Builder[Panel]]:
    """Return the panels of the row *The guard itself*."""
    return [
        lines(
            "Duration of a check",
            "The time that the guard adds to a tool call, over 15 minutes.",
            queries.CHECK_DURATION,
            unit="s",
            empty=NOT_REPORTING,
        ).span(8),
        bars(
            "Errors of the guard",
            "Internal faults, by site. The tool still runs; that call is not protected.",
            {f"{{{{{names.SITE}}}}}": queries.INTERNAL_ERRORS},
            empty=_NONE,
        )
        .links([runbook("guard-errors")])
        .span(8),
        bars(
            "Calls to unknown tools",
            "Calls whose tool is not registered: the model invented the name.",
            {f"{{{{{names.JOB}}}}}": queries.UNKNOWN_CALLS},
            empty=_NONE,
        )
        .links([runbook("unknown-tools")])
        .span(8),
        bars(
            "The shared store and the watcher",
            "Requests that the shared store did not answer, by the reason, and messages that `otel-loopguard watch` "
            "did not take, in 5 minutes.",
            queries.STORE_AND_WATCHER,
            empty="none: no store and no watcher, or all is well.",
        ).links([runbook("store-away"), runbook("watch-full", "Runbook of the watcher")]),
        lines(
            "Trips by source of the count",
            "Trips in 10 minutes: applications count them, and the collector counts the events on their spans. Fewer "
            "events than metrics: spans are sampled or lost. Metrics without events: traces are not exported. More "
            "events: some services export traces only.",
            queries.TRIPS_BY_SOURCE,
            empty=NOT_REPORTING,
        ),
        lines(
            "Turns in memory",
            "Turns that the guard holds at each moment, of all chosen services. Those of model clients stay until "
            "newer ones take their place.",
            {"turns": queries.TURNS_LIVE},
            empty=NOT_REPORTING,
        ),
    ]
