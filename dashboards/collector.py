"""The dashboard of the collector: the spans that it received, lost, keeps and delivers, for all services."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync

from dashboards import queries, variables
from dashboards.panels import COLLECTOR_UID, OVERVIEW_UID, board_link, lines, runbook

_NOT_SCRAPED = "the collector's own metrics are not scraped: is it up, has Prometheus its address?"


def collector() -> Dashboard:
    """Return the dashboard of the collector."""
    board = (
        Dashboard("Agent loops: collector")
        .uid(COLLECTOR_UID)
        .description("The way of spans through the collector.")
        .tags(["otel-loopguard"])
        .time("now-3h", "now")
        .refresh("1m")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .editable()
        .link(board_link("Overview", OVERVIEW_UID))
        .with_variable(variables.prometheus())
    )
    panels = [
        lines(
            "Spans received",
            "Spans in 5 minutes.",
            {"received": queries.RECEIVED},
            empty=_NOT_SCRAPED,
        ).links([runbook("collector-down")]),
        lines(
            "Data refused or dropped",
            "Spans, metric points and log records in 5 minutes. Data is refused when memory is short, and applications "
            "send it again, spans for half a minute only.",
            queries.LOST,
            empty=_NOT_SCRAPED,
        ).links([runbook("collector-loses")]),
        lines(
            "Traces waiting for a decision",
            "Traces in memory: whether they are kept is decided when their root has ended.",
            {"traces": queries.UNDECIDED},
            empty=_NOT_SCRAPED,
        ),
        lines(
            "Delivered spans",
            "Spans in 5 minutes, by exporter.",
            {"{{exporter}}": queries.DELIVERED},
            empty=_NOT_SCRAPED,
        ),
        lines(
            "Waiting for the trace back end",
            "The size of the queue on disk. It grows while the back end is away. Data is lost only if it is full.",
            {"{{exporter}}": queries.QUEUED},
            unit="bytes",
            empty=f"the collector runs without collector-config-tempo.yaml, or {_NOT_SCRAPED}",
        ),
    ]
    for panel in panels:
        board = board.with_panel(panel)
    return board
