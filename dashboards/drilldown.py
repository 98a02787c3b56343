"""The dashboard of the conversations: from a spike of loops down to its traces."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync

from dashboards import names, queries, variables
from dashboards.panels import (
    DRILLDOWN_UID,
    OVERVIEW_UID,
    Column,
    bars,
    board_link,
    conversations,
    listing,
    note,
    runbook,
    spans,
)

_WITHOUT_TEMPO = """
The collector keeps the traces with loops in `loopguard-state/traces/traces.jsonl`, where it runs.

- `otel-loopguard replay traces.jsonl` lists their loops, with tool, turn and conversation.
- `grep TRACE_ID traces.jsonl` finds the trace of a diamond above.
"""
_NO_STEPS = "no loop for this selection. Widen the time range, or choose All."


def drilldown() -> Dashboard:
    """Return the dashboard of the conversations."""
    board = (
        Dashboard("Agent loops: conversations")
        .uid(DRILLDOWN_UID)
        .description("The sources of a spike of tool loops, down to traces and conversations.")
        .tags(["otel-loopguard"])
        .time("now-3h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .editable()
        .link(board_link("Overview", OVERVIEW_UID))
    )
    chosen = (variables.service(), variables.mode(), variables.tool(), variables.service_name())
    for variable in (variables.prometheus(), variables.tempo(), *chosen):
        board = board.with_variable(variable)
    only = conversations("${tempo:queryparam}", "var-job=${__data.fields.Service}", "var-tool=${__data.fields.Tool}")
    panels = [
        bars(
            "Loop steps by tool and mode",
            "Steps of loops. The diamonds are exemplars: each links to a trace with a trip.",
            {f"{{{{{names.TOOL}}}}} · {{{{{names.MODE}}}}}": queries.STEPS_BY_TOOL},
            exemplars=queries.TOOL_TRIP_EXEMPLARS,
            empty=_NO_STEPS,
        ).links([runbook("trip-spike")]),
        listing(
            "Loop steps by service, tool and mode",
            "In this time range. Click a service or a tool to see only its own.",
            [
                Column("Service", label=names.JOB, url=conversations("var-job=${__data.fields.Service}")),
                Column("Tool", label=names.TOOL, url=only),
                Column("Loop", label=names.MODE),
                Column("Loop steps", query=queries.STEPS_BY_SERVICE_TOOL_MODE),
            ],
            sort_by=["Loop steps"],
            empty=_NO_STEPS,
        ),
        note("Traces without Tempo", _WITHOUT_TEMPO),
    ]
    for panel in panels:
        board = board.with_panel(panel)
    tripped = spans(
        "Tripped calls",
        "Every call that was a step of a loop, with its conversation and turn. Click the trace to read all of it: the "
        "sequence of the calls, and which of them had equal results. Arguments and results are in no trace.",
        queries.TRIPPED_SPANS,
        empty="no trace for this selection, or the collector does not send to this Tempo "
        "(collector-config-tempo.yaml).",
    )
    return board.with_row(Row("Traces in Tempo").collapsed(collapsed=True).with_panel(tripped))
