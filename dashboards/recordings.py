"""The series that Prometheus records: panels and alerts read them instead of counters.

Most are the growth of a counter in one minute, by the labels that a panel or an alert needs. Their sum over a range is
the growth in that range, also of processes that have ended. The names are ``labels:metric:operation``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dashboards import names
from dashboards.promql import MINUTE, equals, grown, in_range, select, share, total
from otel_loopguard import semconv
from otel_loopguard.engine.vocabulary import USER_STOP

NO_USER_STOP: Final = f'{names.MODE}!="{USER_STOP}"'
"""Leaves out trips of the user's stop: the agent called a tool after it, which is no loop."""
REFUSING: Final = f'{names.ACTION}=~"reuse|block|conclude|abort"'
"""The actions after which the tool does not run."""
LOOPING: Final = f'{names.ACTION}=~"observe|reuse|block|conclude|abort"'
"""The actions by which a turn counts as looping. A turn that was only nudged does not."""
NOT_STOPPED: Final = f'{names.ACTION}=~"observe|abort"'
"""The actions after which the loop ran on, or the run ended in an error."""

TRIPS_OF_A_TURN: Final = 12
"""The trips of a turn that goes on looping. It divides trips to estimate turns, where only trips are counted."""


@dataclass(frozen=True)
class Recording:
    """A query whose result Prometheus stores under a new name."""

    record: str
    expr: str


# --- who reports -------------------------------------------------------------------------------------------------
PRESENT: Final = "job:loopguard_reporting:present"
_INSTANCES: Final = "job_instance:loopguard_reporting:present"
_RETURNED: Final = "job_instance:loopguard_returned:present"
_COUNTERS: Final = f"{names.TOOL_CALLS}|{names.TRIPS}|{names.TURNS_TRIPPED}|{names.TURNS_LOOPING}"
COLLECTOR_UP: Final = select(names.UP, equals(names.JOB, names.COLLECTOR_JOB))
# After a gap of Prometheus or of the collector the instances are back with counters that Prometheus no longer knows.
# An instance that returns although everything was scraped all the time has started again, and its counters at zero.
_WITHOUT_GAP: Final = f"min(min_over_time({COLLECTOR_UP}[15m])) == 1 and on () {COLLECTOR_UP} offset 15m"
_RETURNING: Final = (
    f"({_INSTANCES} unless {_INSTANCES} offset {MINUTE})\n"
    f"  and last_over_time({_INSTANCES}[1d] offset {MINUTE})\n"
    f"  unless on () ({_WITHOUT_GAP})"
)

# --- growth in a minute ------------------------------------------------------------------------------------------
TRIPS: Final = "job_mode_verdict_action:loopguard_trips:increase1m"
TRIPS_COUNTED: Final = "job_mode_verdict_action:loopguard_trips_counted:increase1m"
TRIP_EVENTS: Final = "job:loopguard_trip_events:increase1m"
TOOL_TRIPS: Final = "job_tool_mode:loopguard_tool_trips:increase1m"
TOOL_CALLS: Final = "job_tool_outcome:loopguard_tool_calls:increase1m"
RECOVERIES: Final = "job_mode_action:loopguard_recoveries:increase1m"
TURNS_TRIPPED: Final = "job_mode_action:loopguard_turns_tripped:increase1m"
TURNS_LOOPING: Final = "job_action:loopguard_turns_looping:increase1m"
MODEL_REQUESTS: Final = "job_step_usage_model:loopguard_model_requests:increase1m"
MODEL_TOKENS: Final = "job_step_model:loopguard_model_tokens:increase1m"
MODEL_COST: Final = "job_step_model:loopguard_model_cost:increase1m"
INTERNAL_ERRORS: Final = "job_site:loopguard_internal_errors:increase1m"
TURN_TOOL_CALLS: Final = "job_le:loopguard_turn_tool_calls_bucket:increase1m"
CHECK_DURATION: Final = "job_le:loopguard_check_duration_seconds_bucket:increase1m"

# --- turns in ten minutes ----------------------------------------------------------------------------------------
TURNS_BY_ACTION: Final = "job_action:loopguard_turns_looping:increase10m"
TURNS: Final = "job:loopguard_turns_looping:increase10m"
TURNS_NOT_STOPPED: Final = "job:loopguard_turns_not_stopped:increase10m"
TRIP_RATIO: Final = "job:loopguard_trips_per_tool_call:ratio15m"
CALLS: Final = "job:loopguard_tool_calls:increase15m"
UNKNOWN_CALLS: Final = "job:loopguard_unknown_tool_calls:increase30m"


def _by(*labels: str) -> str:
    return ", ".join(labels)


def _grown(by: str, metric: str, *matchers: str, back: str = "1h", delay: int = 0) -> str:
    return total(by, grown(select(metric, *matchers), _RETURNED, back, delay))


def _events(by: str, *matchers: str, back: str = "1h") -> str:
    """Return the growth of the trip events that the collector counts on spans, of services that export traces only.

    Spans arrive before metrics, which are exported each minute. So events count two minutes late: by then it is known
    which services have metrics. Events of a service with metrics in the last quarter of an hour do not count.
    """
    events = _grown(by, names.TRIP_EVENTS, *matchers, back=back, delay=2)
    return f"or on ({names.JOB}) ({events} unless on ({names.JOB}) last_over_time({PRESENT}[15m]))"


def _most(*matchers: str) -> str:
    return f"max by ({names.JOB}) ({select(TURNS_BY_ACTION, *matchers)})"


_SHORT = "10m"
"""How far back the growth of turns looks. Turns are for pages, which are about now."""
_TRIP = _by(names.JOB, names.MODE, names.VERDICT, names.ACTION)
_TOOL_TRIP = _by(names.JOB, names.TOOL, names.MODE)
_MODES = _by(names.JOB, names.MODE, names.ACTION)
_TURN = _by(names.JOB, names.ACTION)
_FIRST_OF_MODE = f'{names.FIRST}=~"action|mode"'
_TURNS_TRIPPED = in_range(f"{TURNS_TRIPPED}{{{NO_USER_STOP}}}", "10m")
_TRIPS_IN_10M = in_range(f"{TRIPS}{{{NO_USER_STOP}}}", "10m")

RECORDINGS: Final = (
    # The collector repeats its counts of events for ever, so they do not show that the service still reports.
    Recording(PRESENT, f'group by ({names.JOB}) ({{__name__=~"{_COUNTERS}"}})'),
    Recording(
        _INSTANCES, f'group by ({names.JOB}, {names.INSTANCE}) ({{__name__=~"{_COUNTERS}|{names.TRIP_EVENTS}"}})'
    ),
    Recording(_RETURNED, _RETURNING),
    Recording(TRIPS_COUNTED, _grown(_TRIP, names.TRIPS)),
    Recording(TRIPS, f"{TRIPS_COUNTED}\n{_events(_TRIP)}"),
    Recording(TRIP_EVENTS, _grown(names.JOB, names.TRIP_EVENTS)),
    Recording(TOOL_TRIPS, f"{_grown(_TOOL_TRIP, names.TOOL_TRIPS)}\n{_events(_TOOL_TRIP)}"),
    Recording(TOOL_CALLS, _grown(_by(names.JOB, names.TOOL, names.OUTCOME), names.TOOL_CALLS)),
    Recording(RECOVERIES, _grown(_MODES, names.RECOVERIES)),
    Recording(
        TURNS_TRIPPED,
        f"{_grown(_MODES, names.TURNS_TRIPPED, back=_SHORT)}\n{_events(_MODES, _FIRST_OF_MODE, back=_SHORT)}",
    ),
    Recording(
        TURNS_LOOPING,
        f"{_grown(_TURN, names.TURNS_LOOPING, back=_SHORT)}\n"
        f"{_events(_TURN, equals(names.FIRST, 'action'), NO_USER_STOP, back=_SHORT)}",
    ),
    Recording(
        MODEL_REQUESTS, _grown(_by(names.JOB, names.LOOP_OR_WORK, names.USAGE, names.MODEL), names.MODEL_REQUESTS)
    ),
    Recording(MODEL_TOKENS, _grown(_by(names.JOB, names.LOOP_OR_WORK, names.MODEL), names.MODEL_TOKENS)),
    Recording(MODEL_COST, _grown(_by(names.JOB, names.LOOP_OR_WORK, names.MODEL), names.MODEL_COST)),
    Recording(INTERNAL_ERRORS, _grown(_by(names.JOB, names.SITE), names.INTERNAL_ERRORS)),
    Recording(TURN_TOOL_CALLS, _grown(_by(names.JOB, "le"), names.TURN_TOOL_CALLS)),
    Recording(CHECK_DURATION, _grown(_by(names.JOB, "le"), names.CHECK_DURATION)),
    # A turn that loops reaches several modes and actions. Without the exact count the most frequent mode is a lower
    # bound; with trips alone their number is divided.
    Recording(
        TURNS_BY_ACTION,
        f"{in_range(TURNS_LOOPING, '10m')}\n"
        f"or on ({names.JOB}) max by ({names.JOB}, {names.ACTION}) ({_TURNS_TRIPPED})\n"
        f"or on ({names.JOB}) {total(_by(names.JOB, names.ACTION), _TRIPS_IN_10M)} / {TRIPS_OF_A_TURN}",
    ),
    # The turns that were observed, and of the others the action that most of them reached: each turn once. 0 for a
    # service that reports and does not loop: quiet times count in an average.
    Recording(
        TURNS,
        f"{_most(equals(names.ACTION, 'observe'))} + {_most(REFUSING)}\n"
        f"or {_most(LOOPING)}\n"
        f"or on ({names.JOB}) {PRESENT} * 0",
    ),
    Recording(
        TURNS_NOT_STOPPED,
        f"{total(names.JOB, f'{TURNS_BY_ACTION}{{{NOT_STOPPED}}}')}\nor on ({names.JOB}) {TURNS} * 0",
    ),
    Recording(CALLS, total(names.JOB, in_range(TOOL_CALLS, "15m"))),
    Recording(TRIP_RATIO, share(total(names.JOB, in_range(TRIPS, "15m")), CALLS)),
    Recording(
        UNKNOWN_CALLS,
        f"{total(names.JOB, in_range(select(TOOL_CALLS, equals(names.TOOL, semconv.UNKNOWN_TOOL)), '30m'))}\n"
        f"or on ({names.JOB}) {PRESENT} * 0",
    ),
)


def usual(series: str) -> str:
    """Return the name of the series with the average of this one in calm times."""
    return f"{series}:usual"


def _baseline(series: str, alerts: str) -> tuple[Recording, Recording]:
    """Return two recordings: the series while no alert about it fires, and the average of that over a week.

    So an incident does not become usual while it lasts. A service with less than nearly a day of calm data has no usual
    value. While it has none, its alerts do not stop the recording: a service that always loops becomes usual.
    """
    calm = f"{series}:calm"
    firing = f'ALERTS{{alertname=~"{alerts}",alertstate="firing"}} and on ({names.JOB}) {usual(series)}'
    a_week = f"{calm}[7d:5m] offset 1h"
    return (
        Recording(calm, f"{series} unless on ({names.JOB}) ({firing})"),
        Recording(usual(series), f"avg_over_time({a_week})\n  and count_over_time({a_week}) >= {24 * 12 * 9 // 10}"),
    )


_PAGES = "LoopguardNotStopped|LoopguardTripSpike"
# These change slowly, and are evaluated less often.
USUAL: Final = (
    *_baseline(TURNS, _PAGES),
    *_baseline(TURNS_NOT_STOPPED, _PAGES),
    *_baseline(UNKNOWN_CALLS, "LoopguardUnknownTools"),
)
