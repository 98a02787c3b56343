"""Every query of the dashboards."""

from __future__ import annotations

from typing import Final

from dashboards import names, recordings
from dashboards.promql import equals, in_range, quantile, select, share, total
from otel_loopguard import semconv

WINDOW: Final = "5m"
RANGE: Final = "$__range"

_JOB: Final = f'{names.JOB}=~"$job"'
_MODE: Final = f'{names.MODE}=~"$mode"'
_TOOL: Final = f'{names.TOOL}=~"$tool"'
# Actions that replace the tool's run, and actions that let it run.
_REFUSING: Final = "reuse|block|conclude|abort"
_LETTING: Final = "off|observe|nudge"
_REFUSED_OUTCOMES: Final = "reused|blocked|aborted"

_trips: Final = select(recordings.TRIPS, _JOB, _MODE)
_tool_trips: Final = select(recordings.TOOL_TRIPS, _JOB, _MODE, _TOOL)
_calls: Final = select(recordings.TOOL_CALLS, _JOB, _TOOL)
_refused_calls: Final = select(recordings.TOOL_CALLS, _JOB, _TOOL, f'{names.OUTCOME}=~"{_REFUSED_OUTCOMES}"')
_unknown_calls: Final = select(recordings.TOOL_CALLS, _JOB, equals(names.TOOL, semconv.UNKNOWN_TOOL))
_recoveries: Final = select(recordings.RECOVERIES, _JOB, _MODE)
_would_refuse: Final = select(
    recordings.TRIPS, _JOB, _MODE, f'{names.VERDICT}=~"{_REFUSING}"', f'{names.ACTION}=~"{_LETTING}"'
)
_turns: Final = select(recordings.TURN_TOOL_CALLS, _JOB)
_checks: Final = select(recordings.CHECK_DURATION, _JOB)

# --- over the whole time range: one number ---------------------------------------------------------------------------
TRIPS_TOTAL: Final = total("", in_range(_trips, RANGE))
CALLS_TOTAL: Final = total("", in_range(_calls, RANGE))
REFUSED_SHARE: Final = share(total("", in_range(_refused_calls, RANGE)), total("", in_range(_calls, RANGE)))
RECOVERED_SHARE: Final = share(total("", in_range(_recoveries, RANGE)), total("", in_range(_trips, RANGE)))
WOULD_REFUSE_TOTAL: Final = total("", in_range(_would_refuse, RANGE))
TURNS_LIVE: Final = total("", select(names.TURNS_LIVE, _JOB))

# --- over the whole time range: a list -------------------------------------------------------------------------------
TOP_TOOLS: Final = f"topk(10, {total(names.TOOL, in_range(_tool_trips, RANGE))} > 0)"
RECOVERED_BY_MODE: Final = share(
    total(names.MODE, in_range(_recoveries, RANGE)), total(names.MODE, in_range(_trips, RANGE))
)
WOULD_REFUSE_BY_MODE: Final = (
    f"{total(f'{names.MODE}, {names.VERDICT}, {names.ACTION}', in_range(_would_refuse, RANGE))} > 0"
)
TRIPS_BY_SERVICE_TOOL_MODE: Final = (
    f"{total(f'{names.JOB}, {names.TOOL}, {names.MODE}', in_range(_tool_trips, RANGE))} > 0"
)

# --- over time -------------------------------------------------------------------------------------------------------
TRIPS_BY_MODE: Final = total(names.MODE, in_range(_trips, WINDOW))
TRIPS_BY_ACTION: Final = total(names.ACTION, in_range(_trips, WINDOW))
TRIPS_BY_TOOL: Final = total(f"{names.TOOL}, {names.MODE}", in_range(_tool_trips, WINDOW))
TRIPS_BY_SERVICE: Final = total(names.JOB, in_range(_trips, WINDOW))
TRIP_RATIO: Final = select(recordings.TRIP_RATIO, _JOB)
UNKNOWN_CALLS: Final = total(names.JOB, in_range(_unknown_calls, WINDOW))
CALLS_BY_OUTCOME: Final = total(names.OUTCOME, in_range(_calls, WINDOW))
WOULD_REFUSE_BY_VERDICT: Final = total(names.VERDICT, in_range(_would_refuse, WINDOW))
TURN_LENGTH: Final = {f"p{level * 100:.0f}": quantile(level, _turns, "15m") for level in (0.5, 0.9, 0.99)}

# --- tokens ----------------------------------------------------------------------------------------------------------
_IN_LOOPS: Final = equals(names.LOOP_OR_WORK, "loop")
_tokens: Final = select(recordings.MODEL_TOKENS, _JOB)
_loop_tokens: Final = select(recordings.MODEL_TOKENS, _JOB, _IN_LOOPS)
_requests: Final = select(recordings.MODEL_REQUESTS, _JOB)
_loop_requests: Final = select(recordings.MODEL_REQUESTS, _JOB, _IN_LOOPS, equals(names.USAGE, "known"))
_unknown_usage: Final = select(recordings.MODEL_REQUESTS, _JOB, equals(names.USAGE, "unknown"))
_loop_cost: Final = select(recordings.MODEL_COST, _JOB, _IN_LOOPS)
_endings: Final = total(
    f"{names.JOB}, {names.ACTION}", in_range(select(recordings.TRIPS, _JOB, f'{names.ACTION}=~"conclude|abort"'), RANGE)
)

TOKENS_IN_LOOPS: Final = total("", in_range(_loop_tokens, RANGE))
TOKEN_SHARE: Final = share(TOKENS_IN_LOOPS, total("", in_range(_tokens, RANGE)))
COST_IN_LOOPS: Final = total("", in_range(_loop_cost, RANGE))
UNKNOWN_USAGE_SHARE: Final = share(total("", in_range(_unknown_usage, RANGE)), total("", in_range(_requests, RANGE)))
# A run that is concluded and then aborted counts for both: the larger of the two is the number of runs, or less.
TOKENS_NOT_SPENT: Final = (
    f"sum(max by ({names.JOB}) ({_endings})) * {TOKENS_IN_LOOPS} / ({total('', in_range(_loop_requests, RANGE))} > 0)"
)
TOP_MODELS: Final = f"topk(10, {total(names.MODEL, in_range(_loop_tokens, RANGE))} > 0)"
TOKENS_BY_STEP: Final = total(names.LOOP_OR_WORK, in_range(_tokens, WINDOW))
LOOP_TOKENS_BY_SERVICE: Final = total(names.JOB, in_range(_loop_tokens, WINDOW))
LOOP_COST_BY_SERVICE: Final = total(names.JOB, in_range(_loop_cost, WINDOW))

# --- the guard and its telemetry -------------------------------------------------------------------------------------
CHECK_DURATION: Final = {f"p{level * 100:.0f}": quantile(level, _checks, WINDOW) for level in (0.5, 0.99)}
INTERNAL_ERRORS: Final = total(names.SITE, in_range(select(recordings.INTERNAL_ERRORS, _JOB), "15m"))
TRIPS_BY_SOURCE: Final = {
    "from metrics": total("", in_range(select(recordings.TRIPS_COUNTED, _JOB), WINDOW)),
    "from span events": total("", in_range(select(recordings.TRIP_EVENTS, _JOB), WINDOW)),
}
COLLECTOR: Final = {
    "spans received": f"sum(increase({names.RECEIVED_SPANS}[{WINDOW}]))",
    "spans refused": f"sum(increase({names.REFUSED_SPANS}[{WINDOW}]))",
    "traces waiting for a decision": f"sum({names.UNDECIDED_TRACES})",
}
DELIVERED: Final = f"sum by (exporter) (increase({names.SENT_SPANS}[{WINDOW}]))"
QUEUED: Final = f"sum by (exporter) ({names.QUEUE_SIZE})"

# --- traces, in TraceQL: between backticks a regular expression needs no second escaping ---------------------------
TRIPPED_SPANS: Final = (
    f'{{ resource.service.name =~ `${{service_name:regex}}` && event:name = "{semconv.EVENT_TRIP}"'
    f" && span.{semconv.MODE} =~ `${{mode:regex}}` && span.{semconv.TOOL_NAME} =~ `${{tool:regex}}` }}"
    f" | select(span.{semconv.CONVERSATION_ID}, span.{semconv.TOOL_NAME}, span.{semconv.MODE}, span.{semconv.ACTION},"
    f" span.{semconv.TURN_ID})"
)
