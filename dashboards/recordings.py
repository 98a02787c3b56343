"""The series that Prometheus records: panels and alerts read them instead of counters.

Most are the growth of a counter in one minute, by the labels that a panel or an alert needs. Their sum over a range is
the growth in that range, also of processes that have ended. The names are ``labels:metric:operation``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dashboards import names
from dashboards.promql import COUNTER, MINUTE, MINUTE_AND_STEP, Memory, equals, grown, in_range, select, share, total
from otel_loopguard import semconv
from otel_loopguard.engine.vocabulary import NO_LOOPS, RUN_BUDGET
from otel_loopguard.telemetry.genai_meters import RUN_CALLS
from otel_loopguard.telemetry.meters import TURN_CHILDREN, TURN_COST, TURN_TOKENS

LOOPS: Final = f'{names.MODE}!~"{"|".join(sorted(NO_LOOPS))}"'
"""Leaves out trips that are no loops: a call after the user's stop, and a budget that is spent."""
REFUSING: Final = f'{names.ACTION}=~"reuse|block|conclude|abort"'
"""The actions after which the tool does not run."""
REFUSABLE: Final = f'{names.VERDICT}=~"reuse|block|conclude|abort"'
"""The verdicts of steps that are refused, or would be."""
UNHINDERED: Final = f'{names.ACTION}=~"observe|nudge"'
"""The actions of a loop that nothing stops."""
LOOPING: Final = f'{names.ACTION}=~"observe|reuse|block|conclude|abort"'
"""The actions by which a turn counts as looping. A turn that was only nudged does not."""
REFUSED: Final = f'{names.ACTION}=~"reuse|block"'
"""The actions after which a run goes on without the call."""
ENDING: Final = f'{names.ACTION}=~"conclude|abort"'
"""The actions that end a run: it had to answer, or ended in an error."""
SERVICES_OF_A_SHARED_TOOL: Final = 5
TURNS_OF_A_SHARED_TOOL: Final = 3

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
_RETURNED_NOW: Final = "job_instance:loopguard_returned_now:present"
_RESTARTED: Final = "job_instance:loopguard_restarted:present"
_GONE: Final = "loopguard_gone:value"
_COUNTERS: Final = f"{names.TOOL_CALLS}|{names.TRIPS}|{names.TURNS_TRIPPED}|{names.TURNS_LOOPING}"
COLLECTOR_UP: Final = select(names.UP, equals(names.JOB, names.COLLECTOR_JOB))
# After a gap of Prometheus or of the collector the instances are back with counters that Prometheus no longer knows.
# An instance that returns although everything was scraped all the time has started again, and its counters at zero.
_WITHOUT_GAP: Final = f"min(min_over_time({COLLECTOR_UP}[15m])) == 1 and on () {COLLECTOR_UP} offset 15m"
# Instances that are back after a gap of any length and cause.
_BACK: Final = (
    f"({_INSTANCES} unless {_INSTANCES} offset {MINUTE})\n"
    f"  and last_over_time({_INSTANCES}[1d] offset {MINUTE})\n"
    f"  unless on ({names.JOB}, {names.INSTANCE}) {_RESTARTED}"
)
_RETURNING: Final = f"{_BACK}\n  unless on () ({_WITHOUT_GAP})"
_NEW_PROCESS: Final = (
    f"{names.STARTED} != on ({names.JOB}, {names.INSTANCE}) last_over_time({names.STARTED}[1d] offset {MINUTE})"
)
# The last value of each series that has ended, for a day: of a process that was frozen, asleep or cut off, or of a
# series of deltas without news. Evaluated each two minutes; a series ends five minutes after its last value.
_COUNTED: Final = (
    names.TRIPS, names.TOOL_TRIPS, names.TOOL_CALLS, names.RECOVERIES, names.TURNS_TRIPPED, names.TURNS_LOOPING,
    names.TURNS_ENDED, names.MODEL_REQUESTS, names.MODEL_TOKENS, names.MODEL_COST, names.INTERNAL_ERRORS,
)  # fmt: skip


def _named(series: str) -> str:
    return f'label_replace({series}, "{COUNTER}", "$1", "__name__", "(.*)")'


_LIVE = f'{{__name__=~"{"|".join(_COUNTED)}"}}'
_ENDED: Final = (
    f"(\n  {_named(f'last_over_time({_LIVE}[10m])')}\n"
    f"  or last_over_time({_GONE}[10m])\n"
    f")\n"
    f"unless {_named(_LIVE)}\n"
    f"unless (last_over_time({_GONE}[10m]) == {_GONE} offset 1d)"  # it has not come back since
)

# --- growth in a minute ------------------------------------------------------------------------------------------
TRIPS: Final = "job_mode_verdict_action:loopguard_trips:increase1m"
TRIPS_COUNTED: Final = "job:loopguard_trips_counted:increase1m"
TRIP_EVENTS: Final = "job:loopguard_trip_events:increase1m"
TOOL_TRIPS: Final = "job_tool_mode:loopguard_tool_trips:increase1m"
TOOL_CALLS: Final = "job_tool_outcome:loopguard_tool_calls:increase1m"
RECOVERIES: Final = "job_mode_action:loopguard_recoveries:increase1m"
TURNS_TRIPPED: Final = "job_mode_action:loopguard_turns_tripped:increase1m"
TURNS_LOOPING: Final = "job_action:loopguard_turns_looping:increase1m"
TURNS_LOOPING_NOW: Final = "job_action:loopguard_turns_looping_now:increase1m"
TURNS_OVER: Final = "job_action:loopguard_turns_over:increase1m"
MODEL_REQUESTS: Final = "job_step_usage_model:loopguard_model_requests:increase1m"
MODEL_TOKENS: Final = "job_step_model:loopguard_model_tokens:increase1m"
MODEL_COST: Final = "job_step_model_currency:loopguard_model_cost:increase1m"
INTERNAL_ERRORS: Final = "job_site:loopguard_internal_errors:increase1m"
TURN_TOOL_CALLS: Final = "job_le:loopguard_turn_tool_calls_bucket:increase1m"
BUDGET_TRIPS: Final = "job_account_action:loopguard_budget_trips:increase1m"
CHECK_DURATION: Final = "job_le:loopguard_check_duration_seconds_bucket:increase1m"

# --- turns in ten minutes ----------------------------------------------------------------------------------------
TURNS_BY_ACTION: Final = "job_action:loopguard_turns_looping:increase10m"
TURNS: Final = "job:loopguard_turns_looping:increase10m"
TURNS_NOT_STOPPED: Final = "job:loopguard_turns_not_stopped:increase10m"
TURNS_REFUSED: Final = "job:loopguard_turns_refused:increase10m"
TURNS_ENDED: Final = "job:loopguard_turns_ended:increase10m"
SHARED_TOOL: Final = "job_tool:loopguard_shared_tool_trips:increase10m"
WOULD_REFUSE: Final = "job:loopguard_would_refuse:increase1d"
TRIP_RATIO: Final = "job:loopguard_trips_per_tool_call:ratio15m"
CALLS: Final = "job:loopguard_tool_calls:increase15m"
UNKNOWN_CALLS: Final = "job:loopguard_unknown_tool_calls:increase30m"

# --- what turns took ---------------------------------------------------------------------------------------------
ACCOUNT: Final = "account"
"""The label of these series with a key of ``_ACCOUNTS``."""
_ACCOUNTS: Final = {
    "tokens": (names.TURN_TOKENS, TURN_TOKENS),
    "cost": (names.TURN_COST, TURN_COST),
    "agents": (names.TURN_CHILDREN, TURN_CHILDREN),
    "requests": (names.RUN_REQUESTS, RUN_CALLS),
}
"""The accounts by which turns are compared, each with its histogram and the bounds of that."""
BEYOND_MEDIAN: Final = 10
TURNS_OF_A_MEDIAN: Final = 20
"""The turns of an agent in a week from which on their median says what is usual."""
_TOOK_BY: Final = f"{names.JOB}, {names.AGENT}, {names.CURRENCY}, {ACCOUNT}"
TURNS_TOOK: Final = "job_agent_account_le:loopguard_turns_took_bucket:increase1m"
_TOOK_IN_4M: Final = "job_agent_account_le:loopguard_turns_took_bucket:increase4m"
"""Recorded each two minutes, so that every other value is the growth since the one before."""
_TOOK_IN_HOUR: Final = "job_agent_account_le:loopguard_turns_took_bucket:increase1h"
_TOOK_SHARE: Final = "job_agent_account_le:loopguard_turns_took:ratio7d"
TURNS_BEYOND: Final = "job_agent_account:loopguard_turns_beyond_median:increase1h"
COSTLY_TURNS: Final = "job:loopguard_turns_beyond_median:increase1h"
"""The turns of an hour beyond ten times the median of their agent, in the account with the most of them."""


def _by(*labels: str) -> str:
    return ", ".join(labels)


_ALL = Memory(_RETURNED, _GONE, _RESTARTED)
_PLAIN = Memory(_RETURNED, "", _RESTARTED)
_NOW = Memory(_RETURNED_NOW, "", _RESTARTED)
_SHORT = "10m"
"""How far back the growth of turns looks for pages, which are about now."""


def _grown(by: str, metric: str, *matchers: str, delay: int = 0) -> str:
    memory = _ALL if metric in _COUNTED else _PLAIN
    return total(by, grown(metric, matchers, memory, delay=delay))


def _counted(by: str, metric: str) -> str:
    """Return the growth of a counter, without the labels by which nothing was counted yet.

    A counter that is announced is 0 until it counts. The growth of one that has counted is recorded also where it is
    0: a sum of the recorded minutes would repeat the last one.
    """
    return f"{_grown(by, metric)}\nand {total(by, f'max_over_time({metric}[{MINUTE_AND_STEP}])')} > 0"


def _grown_now(by: str, metric: str) -> str:
    """Return the growth of a counter without that of its gaps, which is 0."""
    gone = f'label_replace(last_over_time({select(_GONE, equals(COUNTER, metric))}[3m]), "{COUNTER}", "", "", "")'
    return total(by, f"{grown(metric, (), _NOW, _SHORT)} unless {gone}\n  or 0 * {metric}")


def _events(by: str, *matchers: str) -> str:
    """Return the growth of the trip events that the collector counts on spans, of services that export traces only.

    Spans arrive before metrics, which are exported each minute. So events count two minutes late: by then it is known
    which services have metrics. Events of a service with metrics in the last quarter of an hour do not count.
    """
    events = _grown(by, names.TRIP_EVENTS, *matchers, delay=2)
    return f"or on ({names.JOB}) ({events} unless on ({names.JOB}) last_over_time({PRESENT}[15m]))"


def _most(*matchers: str) -> str:
    return f"max by ({names.JOB}) ({select(TURNS_BY_ACTION, *matchers)})"


def _took() -> str:
    """Return the growth of the histograms of all accounts, with the account as a label."""
    by = _by(names.JOB, names.AGENT, names.CURRENCY, "le")
    grown = {account: _grown(by, metric) for account, (metric, _) in _ACCOUNTS.items()}
    return "\nor ".join(f'label_replace({each}, "{ACCOUNT}", "{name}", "", "")' for name, each in grown.items())


def _beyond() -> str:
    """Return the turns of the last hour that took more than ten times the median of a week, by agent and account.

    They are counted from the first bound that is ten times the upper one of the median's bucket, so each of them is
    beyond; those nearer to the limit are left out. Of an agent with few turns nothing is known.
    """
    bounds = {
        (bound, limit)
        for _, every in _ACCOUNTS.values()
        for bound in every
        for limit in [each for each in every if each >= round(BEYOND_MEDIAN * bound, 9)][:1]
    }
    return "\nor ".join(
        f"{select(_TOOK_IN_HOUR, _up_to())} - ignoring (le) {select(_TOOK_IN_HOUR, _up_to(limit))}"
        f" and ignoring (le) {select(_TOOK_SHARE, _up_to(bound))} >= 0.5"
        for bound, limit in sorted(bounds)
    )


def _share_of_week() -> str:
    """Return the share of an agent's turns in a week that took up to each bound, if they are enough."""
    return f"{_in_week()} / ignoring (le) group_left () ({_in_week(_up_to())} >= {TURNS_OF_A_MEDIAN})"


def _in_week(*matchers: str) -> str:
    """Return how many turns took up to each bound in the last hour and the hours of a week before it."""
    hour = select(_TOOK_IN_HOUR, *matchers)
    return f"({hour} + (sum_over_time({hour}[7d:1h] offset 1h) or 0 * {hour}))"


def _up_to(bound: float | None = None) -> str:
    """Return a matcher for the bucket with this bound, in text and in OpenMetrics; without one for that of all."""
    number = "[+]Inf" if bound is None else f"{bound:g}([.]0)?".replace("+", "[+]")
    return f'le=~"{number}"'


def took_in(window: str, *matchers: str) -> str:
    """Return how many turns took up to each bound in a window, which is a multiple of four minutes."""
    return f"sum_over_time({select(_TOOK_IN_4M, *matchers)}[{window}:4m])"


_TRIP = _by(names.JOB, names.MODE, names.VERDICT, names.ACTION)
_TOOL_TRIP = _by(names.JOB, names.TOOL, names.MODE)
_MODES = _by(names.JOB, names.MODE, names.ACTION)
_TURN = _by(names.JOB, names.ACTION)
_TURN_EVENTS = _events(_TURN, equals(names.FIRST, "action"), LOOPS)
_FIRST_OF_MODE = f'{names.FIRST}=~"action|mode"'
_TURNS_TRIPPED = in_range(f"{TURNS_TRIPPED}{{{LOOPS}}}", "10m")
_ONE_TOOL = f'{names.TOOL}!~"{semconv.UNKNOWN_TOOL}|{semconv.OTHER_TOOL}"'
_LOOPING_TOOLS = (
    f"{total(_by(names.JOB, names.TOOL), in_range(select(TOOL_TRIPS, _ONE_TOOL), '10m'))} > 0\n"
    f"  and on ({names.JOB}) {TURNS} >= {TURNS_OF_A_SHARED_TOOL}"
)
_TRIPS_IN_10M = in_range(f"{TRIPS}{{{LOOPS}}}", "10m")

RECORDINGS: Final = (
    # The collector repeats its counts of events for ever, so they do not show that the service still reports.
    Recording(PRESENT, f'group by ({names.JOB}) ({{__name__=~"{_COUNTERS}"}})'),
    Recording(
        _INSTANCES, f'group by ({names.JOB}, {names.INSTANCE}) ({{__name__=~"{_COUNTERS}|{names.TRIP_EVENTS}"}})'
    ),
    Recording(_RESTARTED, _NEW_PROCESS),
    Recording(_RETURNED, _RETURNING),
    Recording(_RETURNED_NOW, _BACK),
    Recording(TRIPS, f"{_counted(_TRIP, names.TRIPS)}\n{_events(_TRIP)}"),
    Recording(
        TRIPS_COUNTED,
        f"{total(names.JOB, TRIPS)} and on ({names.JOB}) last_over_time({PRESENT}[2m])\nor {PRESENT} * 0",
    ),
    Recording(TRIP_EVENTS, _grown(names.JOB, names.TRIP_EVENTS)),
    Recording(TOOL_TRIPS, f"{_grown(_TOOL_TRIP, names.TOOL_TRIPS)}\n{_events(_TOOL_TRIP)}"),
    Recording(TOOL_CALLS, _grown(_by(names.JOB, names.TOOL, names.OUTCOME), names.TOOL_CALLS)),
    Recording(RECOVERIES, _grown(_MODES, names.RECOVERIES)),
    Recording(
        TURNS_TRIPPED,
        f"{_grown(_MODES, names.TURNS_TRIPPED)}\n{_events(_MODES, _FIRST_OF_MODE)}",
    ),
    Recording(
        TURNS_LOOPING,
        f"{_grown(_TURN, names.TURNS_LOOPING)}\n{_TURN_EVENTS}",
    ),
    Recording(TURNS_LOOPING_NOW, f"{_grown_now(_TURN, names.TURNS_LOOPING)}\n{_TURN_EVENTS}"),
    Recording(TURNS_OVER, _grown(_TURN, names.TURNS_ENDED)),
    Recording(
        MODEL_REQUESTS, _grown(_by(names.JOB, names.LOOP_OR_WORK, names.USAGE, names.MODEL), names.MODEL_REQUESTS)
    ),
    Recording(MODEL_TOKENS, _grown(_by(names.JOB, names.LOOP_OR_WORK, names.MODEL), names.MODEL_TOKENS)),
    Recording(MODEL_COST, _grown(_by(names.JOB, names.LOOP_OR_WORK, names.MODEL, names.CURRENCY), names.MODEL_COST)),
    Recording(INTERNAL_ERRORS, _grown(_by(names.JOB, names.SITE), names.INTERNAL_ERRORS)),
    Recording(TURN_TOOL_CALLS, _grown(_by(names.JOB, "le"), names.TURN_TOOL_CALLS)),
    Recording(
        BUDGET_TRIPS,
        _grown(_by(names.JOB, names.BUDGET_ACCOUNT, names.ACTION), names.TRIPS, equals(names.MODE, RUN_BUDGET)),
    ),
    Recording(TURNS_TOOK, _took()),
    Recording(CHECK_DURATION, _grown(_by(names.JOB, "le"), names.CHECK_DURATION)),
    # A turn that loops reaches several modes and actions. Without the exact count the most frequent mode is a lower
    # bound; with trips alone their number is divided.
    Recording(
        TURNS_BY_ACTION,
        f"{in_range(TURNS_LOOPING_NOW, '10m')}\n"
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
        f"{_most(equals(names.ACTION, 'observe'))}\nor on ({names.JOB}) {TURNS} * 0",
    ),
    Recording(TURNS_ENDED, f"{_most(ENDING)}\nor on ({names.JOB}) {TURNS} * 0"),
    Recording(TURNS_REFUSED, f"{_most(REFUSED)}\nor on ({names.JOB}) {TURNS} * 0"),
    # Services that loop in one tool, if they are five or more: it has one cause.
    Recording(
        SHARED_TOOL,
        f"{_LOOPING_TOOLS}\n"
        f"  and on ({names.TOOL}) (count by ({names.TOOL}) ({_LOOPING_TOOLS}) >= {SERVICES_OF_A_SHARED_TOOL})",
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
    Recording(_GONE, _ENDED),
    Recording(
        WOULD_REFUSE,
        total(
            names.JOB,
            in_range(select(TRIPS, LOOPS, REFUSABLE, f'{names.ACTION}=~"off|observe"'), "1d", names.JOB),
        ),
    ),
    Recording(_TOOK_IN_4M, in_range(TURNS_TOOK, "4m", f"{_TOOK_BY}, le")),
    Recording(_TOOK_IN_HOUR, took_in("1h")),
    Recording(_TOOK_SHARE, _share_of_week()),
    Recording(TURNS_BEYOND, _beyond()),
    Recording(
        COSTLY_TURNS,
        f"max by ({names.JOB}) ({total(_by(names.JOB, ACCOUNT), TURNS_BEYOND)})\nor on ({names.JOB}) {PRESENT} * 0",
    ),
    *_baseline(COSTLY_TURNS, "LoopguardRunCost"),
    *_baseline(TURNS_ENDED, _PAGES),
    *_baseline(TURNS_REFUSED, "LoopguardRefused"),
    *_baseline(TURNS, _PAGES),
    *_baseline(TURNS_NOT_STOPPED, _PAGES),
    *_baseline(UNKNOWN_CALLS, "LoopguardUnknownTools"),
)
