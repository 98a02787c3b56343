"""The dashboard *Agent loops*: who is looping now, did the guard help, what did it cost, and the details."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync

from dashboards import alerts, names, queries, variables
from dashboards.health import NOT_REPORTING, guard
from dashboards.panels import (
    COLLECTOR_UID,
    DRILLDOWN_UID,
    OVERVIEW_UID,
    SHARE,
    Column,
    bad_from,
    bars,
    board_link,
    conversations,
    lines,
    link,
    listing,
    marks,
    number,
    runbook,
)
from dashboards.tokens import charts, costly_turns, figures, turns

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models.dashboard import Panel

    from dashboards.panels import Steps

STEPS_BY_SERVICE: Final = "Loop steps in 10 minutes, by service"
TURNS_BY_SERVICE: Final = "Looping turns in 10 minutes, by service"

_NO_STEPS = "no loop in this time range, or *Loop steps* has no data either: see there."
_SERVICE = f"{{{{{names.JOB}}}}}"
_OF_SERVICE = f"var-job=${{__field.labels.{names.JOB}}}"
_OF_MODE = f"var-mode=${{__field.labels.{names.MODE}}}"
_CHOSEN_SERVICES = "${job:queryparam}"
_UNHINDERED: Steps = [(None, "transparent"), (1, "red")]
_TURNS: Steps = [(None, "transparent"), (alerts.TURNS_FLOOR, "orange"), (alerts.FLOOD_FLOOR, "red")]


def overview() -> Dashboard:
    """Return the dashboard *Agent loops*."""
    board = (
        Dashboard("Agent loops")
        .uid(OVERVIEW_UID)
        .description("Tool-call loops of LLM agents, detected and stopped by otel_loopguard.")
        .tags(["otel-loopguard"])
        .time("now-3h", "now")
        .refresh("1m")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .editable()
        .annotation(marks("Pages", queries.PAGES, STEPS_BY_SERVICE))
        .link(board_link("Conversations", DRILLDOWN_UID))
        .link(board_link("Collector", COLLECTOR_UID))
    )
    for variable in (variables.prometheus(), variables.tempo(), variables.service(), variables.service_name()):
        board = board.with_variable(variable)
    # The names first: on a narrow screen the panels are one below the other.
    for panel in (*_who(), *_now()):
        board = board.with_panel(panel)
    for title, panels in _rows().items():
        board = board.with_row(Row(title))
        for panel in panels:
            board = board.with_panel(panel)
    return board.with_row(Row("What runs cost: traces in Tempo").collapsed(collapsed=True).with_panel(costly_turns()))


def _rows() -> dict[str, list[Builder[Panel]]]:
    return {
        "In this time range: did the guard help, what did it cost": [*_help_figures(), *figures()],
        "Actions": _help(),
        "What runs cost": [*turns(), *charts()],
        "Loops": _loops(),
        "Shadow mode: calls that enforcing would have refused": _shadow(),
        "The guard itself": guard(),
    }


def _now() -> list[Builder[Panel]]:
    return [
        number(
            "Services looping now",
            "Services with a step of a loop in the last 10 minutes.",
            queries.SERVICES_LOOPING,
            steps=bad_from(1, "red"),
            filled=True,
            empty=NOT_REPORTING,
        ),
        number(
            "Turns looping now",
            f"Turns whose loop is open: from its first trip until the turn ends, brings news, or makes no step for "
            f"five minutes. {alerts.OPEN_FLOOR} of a service that nothing stops are a page, and one of ten minutes.",
            queries.TURNS_OPEN,
            steps=bad_from(1, "orange"),
            empty=NOT_REPORTING,
        ),
        number(
            "Ran unhindered",
            "Steps of loops in 10 minutes whose tool ran without a word to the agent: the policy only observes, or the "
            "turn cannot be told from others for certain.",
            queries.UNHINDERED,
            steps=bad_from(1, "red"),
            empty=NOT_REPORTING,
        ),
        number(
            "Refused",
            "Steps of loops in 10 minutes whose tool was not run: answered from an earlier result, blocked, concluded "
            "or aborted.",
            queries.REFUSED,
            steps=bad_from(1, "blue"),
            empty=NOT_REPORTING,
        ),
        number(
            "Runs ended by the guard",
            "Turns in 10 minutes that the guard concluded or aborted.",
            queries.RUNS_ENDED,
            steps=bad_from(1, "orange"),
            empty=NOT_REPORTING,
        ),
        number(
            "Alerts firing",
            "Alerts of Prometheus on the chosen services; with All also those on the collector. Click for the list.",
            queries.ALERTS_FIRING,
            steps=bad_from(1, "red"),
            empty=NOT_REPORTING,
        ).data_links([link("Alerts", "/alerting/list")]),
    ]


def _who() -> list[Builder[Panel]]:
    return [
        listing(
            "Who is looping, worst first",
            "Every service that reports, in the last 10 minutes: the steps of loops that ran unhindered, for how long "
            "its oldest open loop has run, the tool with the most steps, the shape of its loop, turns that loop, steps "
            "of loops, the share of the steps that were refused, and the share of the calls that were steps of "
            "loops. Click a service for its conversations, and a coloured number for what to do.",
            [
                Column("Service", label=names.JOB, url=conversations("var-job=${__data.fields.Service}")),
                Column("Unhindered", query=queries.UNHINDERED_NOW, steps=_UNHINDERED, runbook="not-stopped"),
                Column("Since", query=queries.SINCE, unit="s"),
                Column("Worst tool", label=names.TOOL),
                Column("Its loop", label=names.MODE),
                Column("", query=queries.WORST_TOOL),
                Column("Turns", query=queries.TURNS_NOW, steps=_TURNS, runbook="trip-spike"),
                Column("Loop steps", query=queries.STEPS_NOW),
                Column("Refused", query=queries.REFUSED_NOW, unit=SHARE),
                Column("Of its calls", query=queries.SHARE_NOW, unit=SHARE),
            ],
            sort_by=["Unhindered", "Turns", "Loop steps"],
            empty=NOT_REPORTING,
        )
        .height(9)
        .span(16),
        lines(
            STEPS_BY_SERVICE,
            "Steps of loops in the 10 minutes before each moment, of the services with any in this time range. Click a "
            "line for the conversations of its service. *Pages* at the top marks when pages of these services fired.",
            {_SERVICE: queries.STEPS_BY_SERVICE},
            sorted_legend=True,
            empty=_NO_STEPS,
        )
        .data_links([link("Conversations of this service", conversations(_OF_SERVICE))])
        .height(9)
        .span(8),
    ]


def _help_figures() -> list[Builder[Panel]]:
    return [
        number(
            "Loop steps",
            "Calls that were steps of a loop: nudged, answered from an earlier result, refused or only observed.",
            queries.STEPS,
            steps=bad_from(1, "orange"),
            width=3,
            empty=NOT_REPORTING,
        ),
        number(
            "Turns that looped",
            "Turns in which the agent looped and was refused, ended or only observed. A turn counts for each action it "
            "reached: this is, for each service, the turns observed and the most frequent of the other actions.",
            queries.TURNS,
            steps=bad_from(1, "orange"),
            width=3,
            empty=NOT_REPORTING,
        ),
        number(
            "Turns ended",
            "Share of the turns with a nudge or more that the guard had to conclude or abort; the others came out of "
            "the loop, or to their own end.",
            queries.ENDED_SHARE,
            unit=SHARE,
            width=3,
            empty=f"no turn was nudged or refused, or nothing was reported. {NOT_REPORTING}",
        ),
        number(
            "News after a step",
            "Share of the steps of loops after which the same turn got something new. A turn that answers after a "
            "nudge, and calls no tool again, has no news: a low share alone is no failure.",
            queries.NEWS_SHARE,
            unit=SHARE,
            width=3,
            empty="no loop in this time range, or the service exports traces only.",
        ),
    ]


def _help() -> list[Builder[Panel]]:
    return [
        bars(
            "Turns by outcome",
            "Turns that ended, each once, by the strongest action that they met: none is a turn without a loop; "
            "observe ran on, nudge was told, reuse and block were refused and went on, conclude and abort were ended.",
            {f"{{{{{names.ACTION}}}}}": queries.TURNS_BY_OUTCOME},
            coloured=True,
            empty=f"no turn ended in this time range, or the service exports traces only. {NOT_REPORTING}",
        ).span(8),
        bars(
            "Loop steps by action",
            "What was done about each step of a loop.",
            {f"{{{{{names.ACTION}}}}}": queries.STEPS_BY_ACTION},
            coloured=True,
            empty=_NO_STEPS,
        ).span(8),
        listing(
            "By the shape of the loop",
            "Turns and steps of each mode, and the share of the steps after which the turn got something new. A low "
            "share, with many steps a turn, means that the model ignores the messages: consider a stronger action for "
            "that mode.",
            [
                Column("Loop", label=names.MODE, url=conversations(_CHOSEN_SERVICES, "var-mode=${__data.fields.Loop}")),
                Column("Turns", query=queries.MODE_TURNS),
                Column("Loop steps", query=queries.MODE_STEPS),
                Column("News after", query=queries.MODE_NEWS, unit=SHARE),
            ],
            sort_by=["Loop steps"],
            empty=_NO_STEPS,
        ).span(8),
        bars(
            "Tool calls by outcome",
            "All calls that the guard judged: executed, nudged, reused, blocked, aborted, failed, cancelled.",
            {f"{{{{{names.OUTCOME}}}}}": queries.CALLS_BY_OUTCOME},
            coloured=True,
            empty=NOT_REPORTING,
        ),
        lines(
            "Tool calls in a turn",
            "Tool calls of a turn until it ended, over 15 minutes. A rising p99 is often the first sign of loops.",
            queries.TURN_LENGTH,
            empty=f"no turn has ended in this time range. {NOT_REPORTING}",
        ),
    ]


def _loops() -> list[Builder[Panel]]:
    return [
        listing(
            "Loops that run now",
            "Loops that are open at this moment: the turns, their steps since the last news, those of them that ran "
            "unhindered, and for how long the oldest has run. Click a number for what to do.",
            [
                Column("Service", label=names.JOB, url=conversations("var-job=${__data.fields.Service}")),
                Column("Tool", label=names.TOOL),
                Column("Loop", label=names.MODE),
                Column("Action", label=names.ACTION),
                Column("Unhindered", query=queries.OPEN_UNHINDERED, steps=_UNHINDERED, runbook="not-stopped"),
                Column("Since", query=queries.OPEN_AGE, unit="s"),
                Column("Turns", query=queries.OPEN_TURNS, runbook="trip-spike"),
                Column("Steps", query=queries.OPEN_STEPS),
            ],
            sort_by=["Unhindered", "Since"],
            empty="no loop is open now, or nothing is reported.",
        )
        .height(9)
        .span(24),
        bars(
            "Loop steps by mode",
            "Steps of loops by the shape of the loop. The diamonds are exemplars: each links to a trace with a trip.",
            {f"{{{{{names.MODE}}}}}": queries.STEPS_BY_MODE},
            exemplars=queries.TRIP_EXEMPLARS,
            empty=_NO_STEPS,
        ).data_links([link("Conversations of this mode", conversations(_CHOSEN_SERVICES, _OF_MODE))]),
        listing(
            "Tools that loop",
            "The tools with the most steps of loops, their share of the tool's calls, and the share of the calls that "
            "were refused.",
            [
                Column("Tool", label=names.TOOL, url=conversations(_CHOSEN_SERVICES, "var-tool=${__data.fields.Tool}")),
                Column("Loop steps", query=queries.TOP_TOOLS),
                Column("Of its calls", query=queries.TOOL_SHARE, unit=SHARE),
                Column("Refused", query=queries.TOOL_REFUSED, unit=SHARE),
            ],
            sort_by=["Loop steps"],
            empty=_NO_STEPS,
        ),
        lines(
            TURNS_BY_SERVICE,
            f"Turns in which the agent looped and was refused, ended or only observed. From the dashed line "
            f"({alerts.TURNS_FLOOR}) on a page is due, if it is not usual for the service.",
            {_SERVICE: queries.TURNS_BY_SERVICE},
            limit=alerts.TURNS_FLOOR,
            sorted_legend=True,
            empty=_NO_STEPS,
        )
        .data_links([link("Conversations of this service", conversations(_OF_SERVICE))])
        .links([runbook("trip-spike")]),
        lines(
            "Loop steps per tool call",
            f"Steps of loops by tool calls over 15 minutes. Above the dashed line ({alerts.RATIO_LIMIT:.0%}) a ticket "
            "is due.",
            {_SERVICE: queries.TRIP_RATIO},
            unit=SHARE,
            limit=alerts.RATIO_LIMIT,
            soft_max=2 * alerts.RATIO_LIMIT,
            sorted_legend=True,
            empty=_NO_STEPS,
        )
        .data_links([link("Conversations of this service", conversations(_OF_SERVICE))])
        .links([runbook("trip-ratio")]),
    ]


def _shadow() -> list[Builder[Panel]]:
    empty = "no loop in this time range, or the policy enforces and refused each."
    return [
        bars(
            "Would have been refused",
            "Steps of loops whose verdict is to refuse, but whose tool ran: the policy only observes or nudges, or the "
            "program runs the tools itself. Each step counts.",
            {f"{{{{{names.VERDICT}}}}}": queries.WOULD_REFUSE_BY_VERDICT},
            coloured=True,
            empty=empty,
        ),
        listing(
            "Would have been refused, by mode",
            "Verdicts of the rules and actions taken, by the shape of the loop.",
            [
                Column("Loop", label=names.MODE),
                Column("Verdict", label=names.VERDICT),
                Column("Action", label=names.ACTION),
                Column("Loop steps", query=queries.WOULD_REFUSE_BY_MODE),
            ],
            sort_by=["Loop steps"],
            empty=empty,
        ),
    ]
