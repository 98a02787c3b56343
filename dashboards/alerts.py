"""The alerts. Prometheus's rules and Grafana's rules are both made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dashboards import names, recordings
from dashboards.panels import COLLECTOR_UID, OVERVIEW_UID, RUNBOOKS
from dashboards.promql import equals, in_range, select, since, total
from dashboards.recordings import (
    PRESENT,
    REFUSING,
    SERVICES_OF_A_SHARED_TOOL,
    SHARED_TOOL,
    TURNS_OF_A_SHARED_TOOL,
    UNHINDERED,
    usual,
)
from otel_loopguard.engine.modes import Mode

GRAFANA: Final = "http://127.0.0.1:3000"
"""The address of Grafana in links. ``otel-loopguard stack export --grafana-url`` replaces it."""

# A floor is the least number for an alert; the number must also be above the usual one times the factor.
TURNS_FLOOR: Final = 5
FLOOD_FLOOR: Final = 50
OPEN_FLOOR: Final = 3
"""Turns that loop unhindered at one moment."""
OPEN_SECONDS: Final = 600
OBSERVED_FLOOR: Final = 20
OBSERVED_STEPS_FLOOR: Final = 10
TURNS_FACTOR: Final = 3
RATIO_LIMIT: Final = 0.05
RATIO_MIN_CALLS: Final = 100
COSTLY_FLOOR: Final = 5
COSTLY_FACTOR: Final = 5
COSTLY_BY_SERVICE: Final = f"Turns beyond {recordings.BEYOND_MEDIAN} times the median, by service"
UNKNOWN_FLOOR: Final = 10
UNKNOWN_FACTOR: Final = 2
SHARED_TOOL_KEEP: Final = "30m"
"""When the tool is repaired, its services loop a little longer, each as long as it has turns that began before."""
QUEUE_LIMIT: Final = 80
"""Percent."""
LEFT_OUT: Final = "(.*/)?loopguard-demo"
"""Services without alerts, as a regular expression: the demo loops on purpose. Add jobs that stop on purpose."""

_KEPT: Final = f'{names.JOB}!~"{LEFT_OUT}"'


@dataclass(frozen=True)
class Alert:
    """An alert. It fires while its query returns a value, and has for the time ``wait``.

    ``summary`` and ``description`` have placeholders: ``{value}`` is the query's value, printed with ``number``;
    ``{job}``, ``{site}``, ``{tool}``, ``{error}``, ``{reason}``, ``{instance}`` and ``{loss}`` are labels of it;
    ``{worst}`` is the tool and the mode with the most trips; ``{not_stopped}`` is the number of turns that nothing
    stopped; ``{services}`` are those of a tool that is shared; ``{took}`` is the account with the most costly turns.
    """

    name: str
    expr: str
    wait: str
    severity: str
    summary: str
    description: str
    number: str = "%.0f"
    keep: str = "0s"
    """The time for which the alert goes on firing, so that a value near the limit sends one message."""
    board: str = ""
    """The uid of the dashboard that the alert links to."""
    panel: str = ""
    """The title of the panel on that dashboard that shows the alert's value."""

    @property
    def page(self) -> str:
        """The name of the alert's page: ``trip-spike`` for ``LoopguardTripSpike``."""
        words = self.name.removeprefix("Loopguard")
        return "".join(f"-{c.lower()}" if c.isupper() else c for c in words).lstrip("-")

    @property
    def runbook(self) -> str:
        """The URL of the alert's runbook."""
        return f"{RUNBOOKS}/{self.page}.md"


def _above_usual(series: str, floor: int, factor: float) -> str:
    """Return a query: the series, where it is at least ``floor``, and above ``factor`` times its usual value (or 0)."""
    return f"{series}{{{_KEPT}}} >= {floor}\n  and {series} > {factor} * ({usual(series)} or {series} * 0)"


def _collector_loses() -> str:
    """Return a query: what each collector lost in 5 minutes, by the kind of loss, or how full its queue is."""
    losses = {
        f"{noun} {loss}": f"{total(names.INSTANCE, since(f'{counter}_{item}'))} > 0"
        for counter, loss in names.LOSSES.items()
        for item, noun in names.LOST_ITEMS.items()
    }
    queue = f"max by (instance) (100 * {names.QUEUE_SIZE} / {names.QUEUE_CAPACITY}) > {QUEUE_LIMIT}"
    losses["% of a queue in use"] = queue
    return "\nor ".join(f'label_replace({query}, "loss", "{loss}", "", "")' for loss, query in losses.items())


_OPEN = select(names.LOOPS_OPEN, _KEPT, UNHINDERED)
_OBSERVED = select(names.LOOPS_OPEN, _KEPT, equals(names.ACTION, "observe"))
_AGE = select(names.LOOPS_OPEN_AGE, _KEPT, UNHINDERED)
_UNHINDERED_NOW = (
    f"(\n  sum by ({names.JOB}) ({_OPEN}) > 0 and on ({names.JOB}) (\n"
    f"    sum by ({names.JOB}) ({_OBSERVED}) >= {OPEN_FLOOR} or max by ({names.JOB}) ({_AGE}) > {OPEN_SECONDS}\n  )\n)"
)
_MANY_OBSERVED = _above_usual(recordings.TURNS_NOT_STOPPED, OBSERVED_FLOOR, TURNS_FACTOR)
_NO_SHARED_TOOL = f"unless on ({names.JOB}) last_over_time({SHARED_TOOL}[{SHARED_TOOL_KEEP}])"
_BREAKER = select(recordings.TRIPS, _KEPT, equals(names.MODE, Mode.GLOBAL_CIRCUIT_BREAKER.value), REFUSING)
_ERRORS = select(recordings.INTERNAL_ERRORS, _KEPT)
_UP = recordings.COLLECTOR_UP
# Nothing was away for 5 minutes: after an outage the next export of a service needs a minute.
_SCRAPED = f"min(min_over_time({_UP}[5m])) == 1"
_TRIPS_LIMIT = f"{recordings.TRIP_RATIO}{{{_KEPT}}} > {RATIO_LIMIT}"

ALERTS: Final = (
    Alert(
        name="LoopguardNotStopped",
        expr=f"({_UNHINDERED_NOW}\n  or on ({names.JOB}) {_MANY_OBSERVED})\n  {_NO_SHARED_TOOL}",
        wait="1m",
        keep="30m",
        severity="page",
        summary="{job}: {value} turn(s) loop and nothing stops them{worst}",
        description=f"{{value}} turn(s) loop and are only observed or told: {OPEN_FLOOR} at once, or one for 10 "
        f"minutes, or {OBSERVED_FLOOR} within 10 minutes and {TURNS_FACTOR} times the usual number of this service.",
        board=OVERVIEW_UID,
        panel="Loops that run now",
    ),
    Alert(
        name="LoopguardTripSpike",
        expr=f"({_above_usual(recordings.TURNS_ENDED, TURNS_FLOOR, TURNS_FACTOR)}\n"
        f"  or on ({names.JOB}) {_above_usual(recordings.TURNS, FLOOD_FLOOR, TURNS_FACTOR)})\n  {_NO_SHARED_TOOL}",
        wait="1m",
        keep="30m",
        severity="page",
        summary="{job}: {value} turns loop in 10 minutes, ended by the guard or a flood{worst}",
        description=f"In 10 minutes the guard ended {TURNS_FLOOR} or more turns of an agent that looped, or "
        f"{FLOOD_FLOOR} or more looped ({{value}}), and {TURNS_FACTOR} times the usual number of this service. "
        "{not_stopped} turns were not stopped.",
        board=OVERVIEW_UID,
        panel="Looping turns in 10 minutes, by service",
    ),
    Alert(
        name="LoopguardSharedTool",
        expr=f"count by ({names.TOOL}) ({select(SHARED_TOOL, _KEPT)}) >= {SERVICES_OF_A_SHARED_TOOL}",
        wait="1m",
        keep=SHARED_TOOL_KEEP,
        severity="page",
        summary="{value} services loop in {tool}{services}",
        description=f"In 10 minutes {{value}} services had {TURNS_OF_A_SHARED_TOOL} turns or more that loop, "
        "with steps in this tool. Their own alerts about loops are left out.",
        board=OVERVIEW_UID,
        panel="Tools that loop",
    ),
    Alert(
        name="LoopguardRefused",
        expr=f"{_above_usual(recordings.TURNS_REFUSED, TURNS_FLOOR, TURNS_FACTOR)}\n  {_NO_SHARED_TOOL}",
        wait="1m",
        keep="10m",  # as long as the loops are in the window of TripRatio, which says the same
        severity="ticket",
        summary="{job}: calls of {value} turns refused in 10 minutes{worst}",
        description=f"In {{value}} turns of 10 minutes the agent looped, and the guard refused calls. The limit is "
        f"{TURNS_FLOOR}, and {TURNS_FACTOR} times the usual number of this service.",
        board=OVERVIEW_UID,
        panel="Looping turns in 10 minutes, by service",
    ),
    Alert(
        name="LoopguardWouldRefuse",
        expr=f"{select(recordings.WOULD_REFUSE, _KEPT)} >= {OBSERVED_STEPS_FLOOR}",
        wait="15m",
        severity="ticket",
        summary="{job}: {value} calls of a day would have been refused{worst}",
        description="{value} steps of loops ran in 24 hours that enforcing would have refused: the policy only "
        "observes, or the calls belong to no known run.",
        board=OVERVIEW_UID,
        panel="Would have been refused",
    ),
    Alert(
        name="LoopguardTripRatio",
        expr=f"{_TRIPS_LIMIT}\n  and {recordings.CALLS} >= {RATIO_MIN_CALLS}\n  {_NO_SHARED_TOOL}",
        # Longer than the quarter of an hour of the ratio: one loop of a quiet service is not in it for so long.
        wait="20m",
        severity="ticket",
        summary="{job}: loops in {value} of its tool calls{worst}",
        description=f"For 20 minutes the share of tool calls that were steps of a loop was above {RATIO_LIMIT:.0%} "
        f"({{value}} over the last 15 minutes).",
        number="percentage",
        board=OVERVIEW_UID,
        panel="Loop steps per tool call",
    ),
    Alert(
        name="LoopguardBreakerOpen",
        expr=f"{total(names.JOB, in_range(_BREAKER, '10m'))} > 0\n  {_NO_SHARED_TOOL}",
        wait="1m",
        keep="15m",
        severity="ticket",
        summary="{job}: the circuit breaker of a turn refused {value} calls in 10 minutes",
        description="A turn had too many errors in a row, or too many calls without anything new, and its breaker "
        "opened. Other turns are not affected.",
        board=OVERVIEW_UID,
        panel="Loop steps by mode",
    ),
    Alert(
        name="LoopguardRunCost",
        expr=_above_usual(recordings.COSTLY_TURNS, COSTLY_FLOOR, COSTLY_FACTOR),
        wait="5m",
        keep="30m",
        severity="ticket",
        summary="{job}: {value} turns of an hour took more than 10 times the usual{took}",
        description=f"{{value}} turns of the last hour took more than {recordings.BEYOND_MEDIAN} times the median of "
        f"their agent. The limit is {COSTLY_FLOOR}, and {COSTLY_FACTOR} times the usual number of this service.",
        board=OVERVIEW_UID,
        panel=COSTLY_BY_SERVICE,
    ),
    Alert(
        name="LoopguardUnknownTools",
        expr=_above_usual(recordings.UNKNOWN_CALLS, UNKNOWN_FLOOR, UNKNOWN_FACTOR),
        wait="5m",
        keep="15m",
        severity="ticket",
        summary="{job}: {value} calls to tools that do not exist in 30 minutes",
        description=f"The model called tools that are not registered {{value}} times in 30 minutes. The limit is "
        f"{UNKNOWN_FLOOR}, and {UNKNOWN_FACTOR} times the usual number of this service.",
        board=OVERVIEW_UID,
        panel="Calls to unknown tools",
    ),
    Alert(
        name="LoopguardGuardErrors",
        expr=f"{total(f'{names.JOB}, {names.SITE}', in_range(_ERRORS, '15m'))} > 0",
        wait="1m",
        severity="ticket",
        summary="{job}: the guard itself failed at {site}",
        description="The guard had {value} internal errors in 15 minutes. The tools ran; those calls were not "
        "protected.",
        board=OVERVIEW_UID,
        panel="Errors of the guard",
    ),
    Alert(
        name="LoopguardStoreAway",
        expr=f"{total(f'{names.JOB}, {names.ERROR_TYPE}', since(select(names.STORE_FAILURES, _KEPT)))} > 0",
        wait="5m",
        severity="ticket",
        summary="{job}: the shared store did not answer {value} requests ({error})",
        description="For 5 minutes requests to the store that shares turns between processes failed ({error}). Each "
        "process judges by what it knows, and refuses only what it can prove.",
        board=OVERVIEW_UID,
        panel="The shared store and the watcher",
    ),
    Alert(
        name="LoopguardWatchFull",
        expr=f"{total(f'{names.JOB}, {names.WATCH_REASON}', since(names.WATCH_REFUSED))} > 0",
        wait="5m",
        severity="ticket",
        summary="{job}: {value} messages not taken ({reason})",
        description="In 5 minutes `otel-loopguard watch` did not take {value} messages ({reason}). Their senders try "
        "again for a while; then the calls in them are not judged.",
        board=OVERVIEW_UID,
        panel="The shared store and the watcher",
    ),
    Alert(
        name="LoopguardCollectorDown",
        expr=f"({_UP} == bool 0) > 0 or absent({_UP})",
        wait="2m",
        severity="ticket",
        summary="Prometheus cannot read the collector's metrics",
        description="For 2 minutes the collector's endpoint {instance} returned no data. Loops are still stopped, but "
        "not visible.",
        board=COLLECTOR_UID,
        panel="Spans received",
    ),
    Alert(
        name="LoopguardCollectorLoses",
        expr=_collector_loses(),
        wait="1m",
        keep="15m",
        severity="ticket",
        summary="Collector {instance}: {value} {loss}",
        description="In 5 minutes the collector refused or dropped data, or a queue is more than "
        f"{QUEUE_LIMIT} % full. Applications send refused data again, spans for half a minute only. Loops are still "
        "stopped, but traces and counts may lack some.",
        board=COLLECTOR_UID,
        panel="Data refused or dropped",
    ),
    Alert(
        name="LoopguardServiceSilent",
        expr=f"sum_over_time({PRESENT}{{{_KEPT}}}[1h:1m] offset 10m) >= 30\n"
        f"  unless {PRESENT}\n"
        f"  and on () ({_SCRAPED})",
        wait="5m",
        severity="ticket",
        summary="{job}: reported for half an hour and reports nothing now",
        description="This service reported in {value} of 60 minutes, and has stopped. It may be down, or its "
        "telemetry may not reach the collector.",
        board=OVERVIEW_UID,
        panel="Tool calls by outcome",
    ),
)
