"""Every query of the dashboards."""

from __future__ import annotations

from typing import Final

from dashboards import alerts, names
from dashboards.promql import equals, grown, quantile, select, share, total
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

_trips: Final = select(names.TRIPS, _JOB, _MODE)
_tool_trips: Final = select(names.TOOL_TRIPS, _JOB, _MODE, _TOOL)
_calls: Final = select(names.TOOL_CALLS, _JOB, _TOOL)
_refused_calls: Final = select(names.TOOL_CALLS, _JOB, _TOOL, f'{names.OUTCOME}=~"{_REFUSED_OUTCOMES}"')
_unknown_calls: Final = select(names.TOOL_CALLS, _JOB, equals(names.TOOL, semconv.UNKNOWN_TOOL))
_recoveries: Final = select(names.RECOVERIES, _JOB, _MODE)
_would_refuse: Final = select(
    names.TRIPS, _JOB, _MODE, f'{names.VERDICT}=~"{_REFUSING}"', f'{names.ACTION}=~"{_LETTING}"'
)
_turns: Final = select(names.TURN_TOOL_CALLS, _JOB)
_checks: Final = select(names.CHECK_DURATION, _JOB)

# --- over the whole time range: one number ---------------------------------------------------------------------------
TRIPS_TOTAL: Final = total("", grown(_trips, RANGE))
CALLS_TOTAL: Final = total("", grown(_calls, RANGE))
REFUSED_SHARE: Final = share(total("", grown(_refused_calls, RANGE)), total("", grown(_calls, RANGE)))
RECOVERED_SHARE: Final = share(total("", grown(_recoveries, RANGE)), total("", grown(_trips, RANGE)))
WOULD_REFUSE_TOTAL: Final = total("", grown(_would_refuse, RANGE))
TURNS_LIVE: Final = total("", select(names.TURNS_LIVE, _JOB))

# --- over the whole time range: a list -------------------------------------------------------------------------------
TOP_TOOLS: Final = f"topk(10, {total(names.TOOL, grown(_tool_trips, RANGE))} > 0)"
RECOVERED_BY_MODE: Final = share(total(names.MODE, grown(_recoveries, RANGE)), total(names.MODE, grown(_trips, RANGE)))
WOULD_REFUSE_BY_MODE: Final = (
    f"{total(f'{names.MODE}, {names.VERDICT}, {names.ACTION}', grown(_would_refuse, RANGE))} > 0"
)
TRIPS_BY_SERVICE_TOOL_MODE: Final = (
    f"{total(f'{names.JOB}, {names.TOOL}, {names.MODE}', grown(_tool_trips, RANGE))} > 0"
)

# --- over time -------------------------------------------------------------------------------------------------------
TRIPS_BY_MODE: Final = total(names.MODE, grown(_trips, WINDOW))
TRIPS_BY_ACTION: Final = total(names.ACTION, grown(_trips, WINDOW))
TRIPS_BY_TOOL: Final = total(f"{names.TOOL}, {names.MODE}", grown(_tool_trips, WINDOW))
TRIPS_BY_SERVICE: Final = select(alerts.TRIPS, _JOB)
TRIP_RATIO: Final = select(alerts.TRIP_RATIO, _JOB)
UNKNOWN_CALLS: Final = total(names.JOB, grown(_unknown_calls, WINDOW))
CALLS_BY_OUTCOME: Final = total(names.OUTCOME, grown(_calls, WINDOW))
WOULD_REFUSE_BY_VERDICT: Final = total(names.VERDICT, grown(_would_refuse, WINDOW))
TURN_LENGTH: Final = {f"p{level * 100:.0f}": quantile(level, _turns, "15m") for level in (0.5, 0.9, 0.99)}

# --- tokens ----------------------------------------------------------------------------------------------------------
_IN_LOOPS: Final = equals(names.LOOP_OR_WORK, "loop")
_tokens: Final = select(names.MODEL_TOKENS, _JOB)
_loop_tokens: Final = select(names.MODEL_TOKENS, _JOB, _IN_LOOPS)
_requests: Final = select(names.MODEL_REQUESTS, _JOB)
_loop_requests: Final = select(names.MODEL_REQUESTS, _JOB, _IN_LOOPS, equals(names.USAGE, "known"))
_unknown_usage: Final = select(names.MODEL_REQUESTS, _JOB, equals(names.USAGE, "unknown"))
_loop_cost: Final = select(names.MODEL_COST, _JOB, _IN_LOOPS)
_endings: Final = total(
    f"{names.JOB}, {names.ACTION}", grown(select(names.TRIPS, _JOB, f'{names.ACTION}=~"conclude|abort"'), RANGE)
)

TOKENS_IN_LOOPS: Final = total("", grown(_loop_tokens, RANGE))
TOKEN_SHARE: Final = share(TOKENS_IN_LOOPS, total("", grown(_tokens, RANGE)))
COST_IN_LOOPS: Final = total("", grown(_loop_cost, RANGE))
UNKNOWN_USAGE_SHARE: Final = share(total("", grown(_unknown_usage, RANGE)), total("", grown(_requests, RANGE)))
# A run that is concluded and then aborted counts for both: the larger of the two is the number of runs, or less.
TOKENS_NOT_SPENT: Final = (
    f"sum(max by ({names.JOB}) ({_endings})) * {TOKENS_IN_LOOPS} / ({total('', grown(_loop_requests, RANGE))} > 0)"
)
TOP_MODELS: Final = f"topk(10, {total(names.MODEL, grown(_loop_tokens, RANGE))} > 0)"
TOKENS_BY_STEP: Final = total(names.LOOP_OR_WORK, grown(_tokens, WINDOW))
LOOP_TOKENS_BY_SERVICE: Final = total(names.JOB, grown(_loop_tokens, WINDOW))
LOOP_COST_BY_SERVICE: Final = total(names.JOB, grown(_loop_cost, WINDOW))

# --- the guard and its telemetry -------------------------------------------------------------------------------------
CHECK_DURATION: Final = {f"p{level * 100:.0f}": quantile(level, _checks, WINDOW) for level in (0.5, 0.99)}
INTERNAL_ERRORS: Final = total(names.SITE, grown(select(names.INTERNAL_ERRORS, _JOB), "15m"))
TRIPS_BY_SOURCE: Final = {
    "from metrics": total("", grown(select(names.TRIPS, _JOB), WINDOW)),
    "from span events": total("", grown(select(names.TRIP_EVENTS, _JOB), WINDOW)),
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
