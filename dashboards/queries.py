"""Every query of the dashboards.

Most read series that Prometheus records. "Now" is the last ten minutes of the time range, as in the alerts that page.
"""

from __future__ import annotations

from typing import Final

from dashboards import names, recordings
from dashboards.promql import equals, in_bars, in_range, quantile, select, share, since, total
from otel_loopguard import semconv

COSTLY_TURN_REQUESTS: Final = 100
"""The collector keeps the traces of turns with so many requests to models."""
NOW: Final = "10m"
RANGE: Final = "$__range"

_JOB: Final = f'{names.JOB}=~"$job"'
_MODE: Final = f'{names.MODE}=~"$mode"'
_TOOL: Final = f'{names.TOOL}=~"$tool"'
_OBSERVED: Final = equals(names.ACTION, "observe")
_NOT_OBSERVED: Final = f'{names.ACTION}!="observe"'
_LETTING: Final = f'{names.ACTION}=~"off|observe|nudge"'

_steps: Final = select(recordings.TRIPS, _JOB, recordings.LOOPS)
_unhindered: Final = select(recordings.TRIPS, _JOB, recordings.LOOPS, _OBSERVED)
_refused: Final = select(recordings.TRIPS, _JOB, recordings.LOOPS, recordings.REFUSING)
_would_refuse: Final = select(recordings.TRIPS, _JOB, recordings.LOOPS, recordings.REFUSABLE, _LETTING)
_tool_steps: Final = select(recordings.TOOL_TRIPS, _JOB, recordings.LOOPS)
_chosen: Final = select(recordings.TOOL_TRIPS, _JOB, _MODE, _TOOL)
_calls: Final = select(recordings.TOOL_CALLS, _JOB)
_refused_calls: Final = select(recordings.TOOL_CALLS, _JOB, f'{names.OUTCOME}=~"reused|blocked|aborted"')
_tripped: Final = select(recordings.TURNS_TRIPPED, _JOB, recordings.LOOPS)
_recoveries: Final = select(recordings.RECOVERIES, _JOB, recordings.LOOPS)


def _count(by: str, selected: str, window: str) -> str:
    """Return the growth in a window as a whole number. What happened in the last minute is not counted in full yet."""
    return f"round({in_range(selected, window, by)})"


def _or_zero(part: str, present: str) -> str:
    """Return the number; 0 without it where a service reports, no value where none does."""
    return f"{part} or 0 * {present}"


def _turns_that(matcher: str) -> str:
    """Return the turns in the time range, by service: of the matching actions, the one that most turns reached."""
    return f"max by ({names.JOB}) ({in_range(select(recordings.TURNS_LOOPING, _JOB, matcher), RANGE)})"


def _with_any(series: str, counted: str) -> str:
    """Return the lines of the services with a count above 0 in the time range; one line at 0 if there is none."""
    some = f"max by ({names.JOB}) (max_over_time({counted}[{RANGE}] @ end())) > 0"
    none = f"0 * (sum({series}) or sum({select(recordings.PRESENT, _JOB)})) unless on () ({some})"
    zero = f'label_replace({none}, "{names.JOB}", "no service", "", "")'
    return f"({series} and on ({names.JOB}) {some}) or {zero}"


_present: Final = f"count({select(recordings.PRESENT, _JOB)})"
_reported: Final = f"count(max_over_time({select(recordings.PRESENT, _JOB)}[{RANGE}]))"

# --- now: numbers ----------------------------------------------------------------------------------------------------
_looping: Final = f"{_count(names.JOB, _steps, NOW)} > 0"

SERVICES_LOOPING: Final = _or_zero(f"count({_looping})", _present)
UNHINDERED: Final = _or_zero(_count("", _unhindered, NOW), _present)
REFUSED: Final = _or_zero(_count("", _refused, NOW), _present)
RUNS_ENDED: Final = _or_zero(
    f"sum(max by ({names.JOB}) ({select(recordings.TURNS_BY_ACTION, _JOB, recordings.ENDING)}))", _present
)
ALERTS_FIRING: Final = _or_zero(
    f'count(ALERTS{{alertname=~"Loopguard.+",{equals("alertstate", "firing")},{_JOB}}})', _present
)
PAGES: Final = select(
    "ALERTS", 'alertname=~"Loopguard.+"', equals("alertstate", "firing"), equals("severity", "page"), _JOB
)

# --- now: which loops are open ---------------------------------------------------------------------------------------
_OPEN_BY: Final = f"{names.JOB}, {names.TOOL}, {names.MODE}, {names.ACTION}"
_open: Final = select(names.LOOPS_OPEN, _JOB)
OPEN_TURNS: Final = f"{total(_OPEN_BY, _open)} > 0"
OPEN_STEPS: Final = f"{total(_OPEN_BY, select(names.LOOPS_OPEN_STEPS, _JOB))} > 0"
OPEN_UNHINDERED: Final = f"{total(_OPEN_BY, select(names.LOOPS_OPEN_STEPS, _JOB, recordings.UNHINDERED))} > 0"
OPEN_AGE: Final = f"max by ({_OPEN_BY}) ({select(names.LOOPS_OPEN_AGE, _JOB)}) > 0"
TURNS_OPEN: Final = _or_zero(total("", _open), _present)

# --- now: who is looping ---------------------------------------------------------------------------------------------
STEPS_NOW: Final = f"{_count(names.JOB, _steps, NOW)} or 0 * {select(recordings.PRESENT, _JOB)}"
_turns: Final = total(names.JOB, select(recordings.TURNS, _JOB))
# A turn that has looped for longer than ten minutes is not among those that began to.
TURNS_NOW: Final = f"{total(names.JOB, _open)} > {_turns} or {_turns}"
UNHINDERED_NOW: Final = f"{_count(names.JOB, _unhindered, NOW)} > 0"
SINCE: Final = f"max by ({names.JOB}) ({select(names.LOOPS_OPEN_AGE, _JOB)}) > 0"
WORST_TOOL: Final = (
    f"topk by ({names.JOB}) (1, {_count(f'{names.JOB}, {names.TOOL}, {names.MODE}', _tool_steps, NOW)} > 0)"
)
REFUSED_NOW: Final = share(_count(names.JOB, _refused, NOW), f"({_looping})")
SHARE_NOW: Final = f"{_count(names.JOB, _steps, NOW)} / ({_count(names.JOB, _calls, NOW)} > 0)"
STEPS_BY_SERVICE: Final = _with_any(in_range(_steps, NOW, names.JOB), _steps)

# --- in the time range: did the guard help ---------------------------------------------------------------------------
STEPS: Final = _or_zero(_count("", _steps, RANGE), _reported)
_turns_looping: Final = (
    f"{_turns_that(_OBSERVED)} + {_turns_that(recordings.REFUSING)} or {_turns_that(recordings.LOOPING)}"
)
_turns_ended: Final = f"round(sum({_turns_that(recordings.ENDING)}))"
TURNS: Final = _or_zero(f"round(sum({_turns_looping}))", _reported)
ENDED_SHARE: Final = share(_turns_ended, f"round(sum({_turns_that(_NOT_OBSERVED)}))")
NEWS_SHARE: Final = share(_count("", _recoveries, RANGE), _count("", _steps, RANGE))

TURNS_BY_OUTCOME: Final = f"{in_bars(select(recordings.TURNS_OVER, _JOB), names.ACTION)} > 0"
STEPS_BY_ACTION: Final = f"{in_bars(_steps, names.ACTION)} > 0"
MODE_STEPS: Final = f"{_count(names.MODE, _steps, RANGE)} > 0"
MODE_TURNS: Final = (
    f"round({total(names.MODE, f'max by ({names.JOB}, {names.MODE}) ({in_range(_tripped, RANGE)})')}) > 0"
)
MODE_NEWS: Final = share(_count(names.MODE, _recoveries, RANGE), f"({MODE_STEPS})")
CALLS_BY_OUTCOME: Final = f"{in_bars(_calls, names.OUTCOME)} > 0"
TURN_LENGTH: Final = {
    f"p{level * 100:.0f}": quantile(level, select(recordings.TURN_TOOL_CALLS, _JOB), "15m")
    for level in (0.5, 0.9, 0.99)
}

# --- in the time range: what did it cost -----------------------------------------------------------------------------
_IN_LOOPS: Final = equals(names.LOOP_OR_WORK, "loop")
_tokens: Final = select(recordings.MODEL_TOKENS, _JOB)
_loop_tokens: Final = select(recordings.MODEL_TOKENS, _JOB, _IN_LOOPS)
_requests: Final = select(recordings.MODEL_REQUESTS, _JOB)
_loop_requests: Final = select(recordings.MODEL_REQUESTS, _JOB, _IN_LOOPS, equals(names.USAGE, "known"))
_unknown_usage: Final = select(recordings.MODEL_REQUESTS, _JOB, equals(names.USAGE, "unknown"))
_loop_cost: Final = select(recordings.MODEL_COST, _JOB, _IN_LOOPS)

TOKENS_IN_LOOPS: Final = _count("", _loop_tokens, RANGE)
TOKEN_SHARE: Final = share(TOKENS_IN_LOOPS, _count("", _tokens, RANGE))
_by_model: Final = f"{names.JOB}, {names.MODEL}"
_cost: Final = in_range(select(recordings.MODEL_COST, _JOB), RANGE, _by_model)
PRICED_SHARE: Final = share(
    f"sum({in_range(_tokens, RANGE, _by_model)} and on ({_by_model}) {_cost} > 0)", _count("", _tokens, RANGE)
)
_CURRENCY_OR_NOT: Final = f'"{names.CURRENCY}", "no currency set", "{names.CURRENCY}", ""'
COST_IN_LOOPS: Final = f"label_replace({in_range(_loop_cost, RANGE, names.CURRENCY)}, {_CURRENCY_OR_NOT})"
TOKENS_NOT_SPENT: Final = f"{_turns_ended} * {TOKENS_IN_LOOPS} / ({_count('', _loop_requests, RANGE)} > 0)"
TOKENS_BY_STEP: Final = f"{in_bars(_tokens, names.LOOP_OR_WORK)} > 0"
LOOP_TOKENS_BY_SERVICE: Final = f"{in_bars(_loop_tokens, names.JOB)} > 0"
LOOP_COST_BY_SERVICE: Final = f"{in_bars(_loop_cost, f'{names.JOB}, {names.CURRENCY}')} > 0"
MODEL_TOKENS: Final = _count(names.MODEL, _loop_tokens, RANGE)
MODEL_SHARE: Final = share(MODEL_TOKENS, _count(names.MODEL, _tokens, RANGE))
MODEL_COST: Final = in_range(_loop_cost, RANGE, names.MODEL)
MODEL_REQUESTS: Final = f"{_count(names.MODEL, _requests, RANGE)} > 0"
MODEL_UNKNOWN: Final = share(_count(names.MODEL, _unknown_usage, RANGE), f"({MODEL_REQUESTS})")

# --- in the time range: what turns took ------------------------------------------------------------------------------
_took: Final = recordings.took_in(RANGE, _JOB)
TURNS_BEYOND: Final = f"round(max_over_time({select(recordings.TURNS_BEYOND, _JOB)}[{RANGE}])) > 0"
TURN_MEDIAN: Final = f"histogram_quantile(0.5, {_took})"
TURN_P95: Final = f"histogram_quantile(0.95, {_took})"
TURN_MOST: Final = f"histogram_quantile(1, {_took})"
_costly: Final = select(recordings.COSTLY_TURNS, _JOB)
COSTLY_TURNS: Final = _with_any(_costly, _costly)
BUDGET_TRIPS: Final = f"{in_bars(select(recordings.BUDGET_TRIPS, _JOB), f'{names.BUDGET_ACCOUNT}, {names.ACTION}')} > 0"

# --- in the time range: which loops ----------------------------------------------------------------------------------
STEPS_BY_MODE: Final = f"{in_bars(_steps, names.MODE)} > 0"
TRIP_EXEMPLARS: Final = select(names.TRIPS, _JOB, recordings.LOOPS)
TOP_TOOLS: Final = f"topk(20, {_count(names.TOOL, _tool_steps, RANGE)} > 0)"
# Services that export traces only report no calls.
_of_calls: Final = f"{in_range(_tool_steps, RANGE)} and on ({names.JOB}) {in_range(_calls, RANGE)} > 0"
TOOL_SHARE: Final = (
    f"{total(names.TOOL, _of_calls)} / ({_count(names.TOOL, _calls, RANGE)} > 0) and on ({names.TOOL}) ({TOP_TOOLS})"
)
TOOL_REFUSED: Final = (
    f"{share(_count(names.TOOL, _refused_calls, RANGE), _count(names.TOOL, _calls, RANGE))}"
    f" and on ({names.TOOL}) ({TOP_TOOLS})"
)
TURNS_BY_SERVICE: Final = _with_any(select(recordings.TURNS, _JOB), select(recordings.TURNS, _JOB))
TRIP_RATIO: Final = _with_any(select(recordings.TRIP_RATIO, _JOB), select(recordings.TRIP_RATIO, _JOB))
UNKNOWN_CALLS: Final = (
    f"{in_bars(select(recordings.TOOL_CALLS, _JOB, equals(names.TOOL, semconv.UNKNOWN_TOOL)), names.JOB)} > 0"
)

# --- in the time range: what enforcing would have refused ------------------------------------------------------------
WOULD_REFUSE_BY_VERDICT: Final = f"{in_bars(_would_refuse, names.VERDICT)} > 0"
WOULD_REFUSE_BY_MODE: Final = f"{_count(f'{names.MODE}, {names.VERDICT}, {names.ACTION}', _would_refuse, RANGE)} > 0"

# --- the sources of a spike ------------------------------------------------------------------------------------------
STEPS_BY_TOOL: Final = f"{in_bars(_chosen, f'{names.TOOL}, {names.MODE}')} > 0"
TOOL_TRIP_EXEMPLARS: Final = select(names.TOOL_TRIPS, _JOB, _MODE, _TOOL)
STEPS_BY_SERVICE_TOOL_MODE: Final = f"{_count(f'{names.JOB}, {names.TOOL}, {names.MODE}', _chosen, RANGE)} > 0"

# --- the guard -------------------------------------------------------------------------------------------------------
CHECK_DURATION: Final = {
    f"p{level * 100:.0f}": quantile(level, select(recordings.CHECK_DURATION, _JOB), "15m") for level in (0.5, 0.99)
}
INTERNAL_ERRORS: Final = f"{in_bars(select(recordings.INTERNAL_ERRORS, _JOB), names.SITE)} > 0"
TURNS_LIVE: Final = total("", select(names.TURNS_LIVE, _JOB))
TRIPS_BY_SOURCE: Final = {
    "from metrics": in_range(select(recordings.TRIPS_COUNTED, _JOB), NOW, ""),
    "from span events": in_range(select(recordings.TRIP_EVENTS, _JOB), NOW, ""),
}

_not_answered: Final = since(select(names.STORE_FAILURES, _JOB))
_not_taken: Final = since(select(names.WATCH_REFUSED, _JOB))
STORE_AND_WATCHER: Final = {
    f"store: {{{{{names.ERROR_TYPE}}}}}": f"{total(names.ERROR_TYPE, _not_answered)} > 0",
    f"watch: {{{{{names.WATCH_REASON}}}}}": f"{total(names.WATCH_REASON, _not_taken)} > 0",
}

# --- the collector ---------------------------------------------------------------------------------------------------
RECEIVED: Final = f"sum({since(names.RECEIVED_SPANS)})"
_received: Final = f"0 * sum({names.RECEIVED_SPANS})"
LOST: Final = {
    loss: " + ".join(f"(sum({since(f'{counter}_{item}')}) or {_received})" for item in names.LOST_ITEMS)
    for counter, loss in names.LOSSES.items()
}
UNDECIDED: Final = f"sum({names.UNDECIDED_TRACES})"
DELIVERED: Final = f"sum by (exporter) ({since(names.SENT_SPANS)})"
QUEUED: Final = f"sum by (exporter) ({names.QUEUE_SIZE})"

# --- traces, in TraceQL: between backticks a regular expression needs no second escaping ---------------------------
COSTLY_TURN_SPANS: Final = (
    f"{{ resource.service.name =~ `${{service_name:regex}}`"
    f" && span.{semconv.TURN_REQUESTS} >= {COSTLY_TURN_REQUESTS} }}"
    f" | select(span.{semconv.AGENT_NAME}, span.{semconv.TURN_REQUESTS}, span.{semconv.TURN_INPUT_TOKENS},"
    f" span.{semconv.TURN_COST}, span.{semconv.TURN_CHILDREN}, span.{semconv.TURN_SECONDS})"
)
TRIPPED_SPANS: Final = (
    f'{{ resource.service.name =~ `${{service_name:regex}}` && event:name = "{semconv.EVENT_TRIP}"'
    f" && span.{semconv.MODE} =~ `${{mode:regex}}` && span.{semconv.TOOL_NAME} =~ `${{tool:regex}}` }}"
    f" | select(span.{semconv.CONVERSATION_ID}, span.{semconv.TOOL_NAME}, span.{semconv.MODE}, span.{semconv.ACTION},"
    f" span.{semconv.TURN_ID})"
)
