"""The drill-down: from a spike to its conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync

from dashboards import names, queries, variables
from dashboards.panels import (
    DRILLDOWN_UID,
    OVERVIEW_UID,
    firing_alerts,
    link,
    listing,
    over_time,
    runbook,
    spans,
)

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models.dashboard import Panel

_NO_TRIPS = "No loop for this selection: widen the time range, or choose All"


def drilldown() -> Dashboard:
    """The dashboard."""
    board = (
        Dashboard("Agent loops: conversations")
        .uid(DRILLDOWN_UID)
        .description("The sources of a spike of tool loops, down to traces and conversations.")
        .tags(["otel-loopguard"])
        .time("now-3h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .editable()
        .annotation(firing_alerts())
        .link(link("Overview", f"/d/{OVERVIEW_UID}").include_vars(include_vars=True).keep_time(keep_time=True))
    )
    chosen = (variables.service(), variables.mode(), variables.tool(), variables.service_name())
    for variable in (variables.prometheus(), variables.tempo(), *chosen):
        board = board.with_variable(variable)
    for title, panels in {"Sources": _sources(), "Traces with a trip": _traces()}.items():
        board = board.with_row(Row(title))
        for panel in panels:
            board = board.with_panel(panel)
    return board


def _sources() -> list[Builder[Panel]]:
    narrower = f"/d/{DRILLDOWN_UID}?${{__url_time_range}}"
    return [
        over_time(
            "Trips by tool and mode",
            "Trips in 5 minutes. The diamonds are exemplars: each links to a trace with a trip.",
            {f"{{{{{names.TOOL}}}}} · {{{{{names.MODE}}}}}": queries.TRIPS_BY_TOOL},
            bars=True,
            exemplars=True,
            empty=_NO_TRIPS,
        ).links([runbook("trip-spike")]),
        listing(
            "Trips by service, tool and mode",
            "In this time range. Click a service to filter by it.",
            queries.TRIPS_BY_SERVICE_TOOL_MODE,
            {names.JOB: "Service", names.TOOL: "Tool", names.MODE: "Loop", "Value": "Trips"},
            empty=_NO_TRIPS,
        ).data_links([link("Only this service", f"{narrower}&var-job=${{__data.fields.Service}}")]),
    ]


def _traces() -> list[Builder[Panel]]:
    return [
        spans(
            "Tripped calls",
            "Every call that was a step of a loop, with its conversation and turn. Click the trace to read all of it: "
            "the first call of the loop shows the tool's result.",
            queries.TRIPPED_SPANS,
            empty="No trace found: does the collector send to this Tempo (collector-config-tempo.yaml)?",
        ),
    ]
