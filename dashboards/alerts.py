"""Recorded series and alerts: the one source of Prometheus's rules and of Grafana's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dashboards import names
from dashboards.promql import equals, grown, select, share, total
from otel_loopguard import semconv
from otel_loopguard.core.model import Mode

RUNBOOKS: Final = "https://github.com/otel-loopguard/otel-loopguard/blob/main/docs/runbooks"

# Series that more than one rule or panel uses, named labels:metric:operation.
TRIPS_BY_MODE: Final = "job_mode:loopguard_trips:increase5m"
TRIPS: Final = "job:loopguard_trips:increase5m"
CALLS: Final = "job:loopguard_tool_calls:increase15m"
TRIP_RATIO: Final = "job:loopguard_trips_per_tool_call:ratio15m"
UNKNOWN_CALLS: Final = "job:loopguard_unknown_tool_calls:increase30m"
PRESENT: Final = "job:loopguard_reporting:present"

SPIKE_FLOOR: Final = 10
SPIKE_FACTOR: Final = 3
RATIO_LIMIT: Final = 0.05
RATIO_MIN_CALLS: Final = 100
UNKNOWN_FLOOR: Final = 10
UNKNOWN_FACTOR: Final = 2


@dataclass(frozen=True)
class Recording:
    """A query whose result Prometheus stores under a new name."""

    record: str
    expr: str


@dataclass(frozen=True)
class Alert:
    """A query that returns a value above 0 if the alert should fire, and nothing otherwise.

    In the texts ``{job}``, ``{site}`` and ``{instance}`` are replaced by labels, ``{value}`` by the query's value,
    printed with ``number``.
    """

    name: str
    expr: str
    wait: str
    severity: str
    summary: str
    description: str
    number: str = "%.0f"

    @property
    def page(self) -> str:
        """The alert's name without the package's, hyphenated."""
        words = self.name.removeprefix("Loopguard")
        return "".join(f"-{c.lower()}" if c.isupper() else c for c in words).lstrip("-")

    @property
    def runbook(self) -> str:
        """The URL of the alert's runbook."""
        return f"{RUNBOOKS}/{self.page}.md"


def _above_own_past(series: str, factor: float) -> str:
    """Compare with a multiple of the last day's average, which is 0 for a service without a past."""
    return f"{series} > {factor} * (avg_over_time({series}[1d] offset 10m) or {series} * 0)"


def _trips(by: str, *matchers: str) -> str:
    """Trips in 5 minutes; the trip events for applications that export traces only, without the trip metric."""
    counted, seen = (grown(select(metric, *matchers), "5m") for metric in (names.TRIPS, names.TRIP_EVENTS))
    return f"{total(by, counted)}\nor on ({names.JOB}) {total(by, seen)}"


# Before it opens, the breaker nudges. That is a trip, but not urgent.
_BREAKER_REFUSES = (
    equals(names.MODE, Mode.GLOBAL_CIRCUIT_BREAKER.value),
    f'{names.VERDICT}=~"reuse|block|conclude|abort"',
)

RECORDINGS: Final = (
    Recording(TRIPS_BY_MODE, _trips(f"{names.JOB}, {names.MODE}")),
    Recording(TRIPS, total(names.JOB, TRIPS_BY_MODE)),
    Recording(CALLS, total(names.JOB, grown(names.TOOL_CALLS, "15m"))),
    Recording(TRIP_RATIO, share(total(names.JOB, grown(names.TRIPS, "15m")), CALLS)),
    Recording(
        UNKNOWN_CALLS,
        total(names.JOB, grown(select(names.TOOL_CALLS, equals(names.TOOL, semconv.UNKNOWN_TOOL)), "30m")),
    ),
    Recording(PRESENT, f"group by ({names.JOB}) ({names.TOOL_CALLS})"),
)

_SCRAPE = select(names.UP, equals(names.JOB, names.COLLECTOR_JOB))

ALERTS: Final = (
    Alert(
        name="LoopguardTripSpike",
        expr=f"{TRIPS} > {SPIKE_FLOOR}\n  and {_above_own_past(TRIPS, SPIKE_FACTOR)}",
        wait="1m",
        severity="page",
        summary="{job}: {value} tool loops in 5 minutes",
        description=f"The guard saw {{value}} loops in 5 minutes: more than {SPIKE_FLOOR}, and more than "
        f"{SPIKE_FACTOR} times the usual number of this service.",
    ),
    Alert(
        name="LoopguardTripRatio",
        expr=f"{TRIP_RATIO} > {RATIO_LIMIT}\n  and {CALLS} >= {RATIO_MIN_CALLS}",
        wait="10m",
        severity="ticket",
        summary="{job}: loops in {value} of its tool calls",
        description=f"For 10 minutes the share of tool calls that were steps of a loop was above {RATIO_LIMIT:.0%} "
        f"({{value}} over the last 15 minutes).",
        number="percentage",
    ),
    Alert(
        name="LoopguardBreakerOpen",
        expr=f"({_trips(names.JOB, *_BREAKER_REFUSES)}) > 0",
        wait="0s",
        severity="page",
        summary="{job}: the circuit breaker is open",
        description="Turns had too many errors in a row, or too many calls without anything new. The breaker opened: "
        "{value} refused in 5 minutes.",
    ),
    Alert(
        name="LoopguardUnknownTools",
        expr=f"{UNKNOWN_CALLS} > {UNKNOWN_FLOOR}\n  and {_above_own_past(UNKNOWN_CALLS, UNKNOWN_FACTOR)}",
        wait="5m",
        severity="ticket",
        summary="{job}: {value} calls to tools that do not exist in 30 minutes",
        description=f"The model called tools that are not registered {{value}} times in 30 minutes: more than "
        f"{UNKNOWN_FLOOR}, and more than {UNKNOWN_FACTOR} times the usual number of this service.",
    ),
    Alert(
        name="LoopguardGuardErrors",
        expr=f"{total(f'{names.JOB}, {names.SITE}', grown(names.INTERNAL_ERRORS, '15m'))} > 0",
        wait="0s",
        severity="ticket",
        summary="{job}: the guard itself failed at {site}",
        description="The guard had {value} internal errors in 15 minutes. The tools ran; those calls were not "
        "protected.",
    ),
    Alert(
        name="LoopguardCollectorDown",
        expr=f"({_SCRAPE} == bool 0) > 0 or absent({_SCRAPE})",
        wait="2m",
        severity="ticket",
        summary="Prometheus cannot read the collector's metrics",
        description="For 2 minutes the collector's endpoint {instance} returned no data. Loops are still stopped, but "
        "not visible.",
    ),
    Alert(
        name="LoopguardServiceSilent",
        expr=f"sum_over_time({PRESENT}[1h:1m] offset 10m) >= 50\n  unless {PRESENT}",
        wait="5m",
        severity="ticket",
        summary="{job}: reported for an hour and reports nothing now",
        description="This service reported in {value} of 60 minutes, and has stopped. It may be down, or its "
        "telemetry may not reach the collector.",
    ),
)
