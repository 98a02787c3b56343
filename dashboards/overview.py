"""The overview: loops by service and tool, actions, recoveries, and the health of the guard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync

from dashboards import alerts, names, queries, variables
from dashboards.health import NO_CALLS, guard, telemetry
from dashboards.panels import (
    DRILLDOWN_UID,
    OVERVIEW_UID,
    drilldown,
    firing_alerts,
    link,
    listing,
    number,
    over_time,
    runbook,
    top_list,
)
from dashboards.tokens import tokens

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models.dashboard import Panel

_NO_TRIPS = "No loop in this time range"
_CHOSEN_MODE = f"var-mode=${{__field.labels.{names.MODE}}}"
_CHOSEN_TOOL = f"var-tool=${{__field.labels.{names.TOOL}}}"


def overview() -> Dashboard:
    """The dashboard."""
    board = (
        Dashboard("Agent loops")
        .uid(OVERVIEW_UID)
        .description("Tool-call loops of LLM agents, detected and stopped by otel_loopguard.")
        .tags(["otel-loopguard"])
        .time("now-3h", "now")
        .refresh("1m")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .editable()
        .annotation(firing_alerts())
        .link(link("Conversations", f"/d/{DRILLDOWN_UID}").include_vars(include_vars=True).keep_time(keep_time=True))
    )
    for variable in (variables.prometheus(), variables.service(), variables.mode(), variables.tool()):
        board = board.with_variable(variable)
    for title, panels in _rows().items():
        board = board.with_row(Row(title))
        for panel in panels:
            board = board.with_panel(panel)
    return board


def _rows() -> dict[str, list[Builder[Panel]]]:
    return {
        "In this time range": _numbers(),
        "Loops": _loops(),
        "Actions and recoveries": _help(),
        "What loops cost": tokens(),
        "Shadow mode: calls that enforcing would have refused": _shadow(),
        "The guard itself": guard(),
        "Telemetry": telemetry(),
    }


def _numbers() -> list[Builder[Panel]]:
    return [
        number(
            "Loop trips",
            "Loops that were nudged, answered from an earlier result, refused, concluded, aborted, or only observed.",
            queries.TRIPS_TOTAL,
            steps=[(None, "green"), (1, "orange")],
            empty=_NO_TRIPS,
        ),
        number(
            "Calls refused",
            "Share of tool calls that were not run: answered from an earlier result, blocked, or aborted.",
            queries.REFUSED_SHARE,
            unit="percentunit",
            steps=[(None, "green"), (alerts.RATIO_LIMIT, "red")],
            empty=NO_CALLS,
        ),
        number(
            "Recovered",
            "Share of trips after which the same turn got something new.",
            queries.RECOVERED_SHARE,
            unit="percentunit",
            steps=[(None, "red"), (0.5, "green")],
            empty=_NO_TRIPS,
        ),
        number("Tool calls", "All calls that the guard judged.", queries.CALLS_TOTAL, empty=NO_CALLS),
        number("Turns live", "Turns that the guard holds in memory now.", queries.TURNS_LIVE, empty=NO_CALLS),
        number(
            "Would be refused",
            "Trips whose verdict was to refuse, while the policy's ceiling let the tool run.",
            queries.WOULD_REFUSE_TOTAL,
            steps=[(None, "green"), (1, "blue")],
            empty="Nothing: no loop, or every loop was refused",
        ),
    ]


def _loops() -> list[Builder[Panel]]:
    return [
        over_time(
            "Trips by mode",
            "Trips in the last 5 minutes at each moment, by the shape of the loop. The diamonds are exemplars: "
            "each links to a trace with a trip.",
            {f"{{{{{names.MODE}}}}}": queries.TRIPS_BY_MODE},
            bars=True,
            exemplars=True,
            empty=_NO_TRIPS,
        ).data_links([drilldown(_CHOSEN_MODE)]),
        top_list(
            "Top looping tools",
            "The tools with the most trips in this time range.",
            queries.TOP_TOOLS,
            f"{{{{{names.TOOL}}}}}",
            empty=_NO_TRIPS,
        ).data_links([drilldown(_CHOSEN_TOOL)]),
        over_time(
            "Trips by service",
            "Trips in 5 minutes.",
            {f"{{{{{names.JOB}}}}}": queries.TRIPS_BY_SERVICE},
            empty="No service reports trips: has Prometheus loaded the recording rules?",
        ).links([runbook("trip-spike")]),
        over_time(
            "Loops per tool call",
            f"Trips by tool calls over 15 minutes. Above the dashed line ({alerts.RATIO_LIMIT:.0%}) an alert is due.",
            {f"{{{{{names.JOB}}}}}": queries.TRIP_RATIO},
            unit="percentunit",
            steps=[(None, "green"), (alerts.RATIO_LIMIT, "red")],
            empty="No tool calls in the last 15 minutes, or Prometheus has not loaded the recording rules",
        ).links([runbook("trip-ratio")]),
    ]


def _help() -> list[Builder[Panel]]:
    return [
        over_time(
            "Actions",
            "Trips in 5 minutes by the action taken.",
            {f"{{{{{names.ACTION}}}}}": queries.TRIPS_BY_ACTION},
            bars=True,
            empty=_NO_TRIPS,
        ),
        top_list(
            "Recovered, by mode",
            "Share of trips after which the turn got something new. A low share means that the model ignores the "
            "messages: consider a stronger action for that mode.",
            queries.RECOVERED_BY_MODE,
            f"{{{{{names.MODE}}}}}",
            unit="percentunit",
            empty=_NO_TRIPS,
        ),
        over_time(
            "Tool calls in a turn",
            "Tool calls of a turn until it ended. A rising p99 is often the first sign of loops.",
            queries.TURN_LENGTH,
            empty="No turn has ended in this time range",
        ),
        over_time(
            "Calls by outcome",
            "Tool calls in 5 minutes: executed, nudged, reused, blocked, aborted, failed, cancelled.",
            {f"{{{{{names.OUTCOME}}}}}": queries.CALLS_BY_OUTCOME},
            bars=True,
            empty=NO_CALLS,
        ),
    ]


def _shadow() -> list[Builder[Panel]]:
    empty = "Nothing: no loop, or the policy enforces and refused it"
    return [
        over_time(
            "Would have been refused",
            "Trips in 5 minutes whose verdict is to refuse, but whose tool ran because the policy only observes or "
            "nudges. An unbroken loop counts at its 1st, 2nd, 4th, 8th repetition beyond the limit.",
            {f"{{{{{names.VERDICT}}}}}": queries.WOULD_REFUSE_BY_VERDICT},
            bars=True,
            empty=empty,
        ),
        listing(
            "By mode",
            "Verdicts of the rules and actions taken, by the shape of the loop.",
            queries.WOULD_REFUSE_BY_MODE,
            {names.MODE: "Loop", names.VERDICT: "Verdict", names.ACTION: "Action", "Value": "Trips"},
            empty=empty,
        ),
    ]
