"""The names of metrics and labels in Prometheus, made from ``otel_loopguard.semconv``.

The collector's exporter turns dots into underscores, adds the unit where it is a real one (``s``, not ``{trip}``) and
``_total`` to counters.
"""

from __future__ import annotations

from typing import Final

from otel_loopguard import semconv


def _underscored(name: str) -> str:
    return name.replace(".", "_")


def _counter(name: str) -> str:
    return f"{_underscored(name)}_total"


# --- metrics of the applications ----------------------------------------------------------------------------------
TRIPS: Final = _counter(semconv.METRIC_TRIPS)
TURNS_TRIPPED: Final = _counter(semconv.METRIC_TURNS_TRIPPED)
TURNS_LOOPING: Final = _counter(semconv.METRIC_TURNS_LOOPING)
TURNS_ENDED: Final = _counter(semconv.METRIC_TURNS_ENDED)
RECOVERIES: Final = _counter(semconv.METRIC_RECOVERIES)
TOOL_TRIPS: Final = _counter(semconv.METRIC_TOOL_TRIPS)
TOOL_CALLS: Final = _counter(semconv.METRIC_TOOL_CALLS)
TURN_TOOL_CALLS: Final = f"{_underscored(semconv.METRIC_TURN_TOOL_CALLS)}_bucket"
TURN_TOKENS: Final = f"{_underscored(semconv.METRIC_TURN_TOKENS)}_bucket"
TURN_COST: Final = f"{_underscored(semconv.METRIC_TURN_COST)}_bucket"
TURN_CHILDREN: Final = f"{_underscored(semconv.METRIC_TURN_CHILDREN)}_bucket"
RUN_REQUESTS: Final = f"{_underscored(semconv.METRIC_INVOKE_AGENT_INFERENCE_CALLS)}_bucket"
CHECK_DURATION: Final = f"{_underscored(semconv.METRIC_CHECK_DURATION)}_seconds_bucket"
TURNS_LIVE: Final = _underscored(semconv.METRIC_TURNS_LIVE)
LOOPS_OPEN: Final = _underscored(semconv.METRIC_LOOPS_OPEN)
LOOPS_OPEN_STEPS: Final = _underscored(semconv.METRIC_LOOPS_OPEN_STEPS)
LOOPS_OPEN_AGE: Final = f"{_underscored(semconv.METRIC_LOOPS_OPEN_AGE)}_seconds"
STARTED: Final = f"{_underscored(semconv.METRIC_STARTED)}_seconds"
STORE_FAILURES: Final = _counter(semconv.METRIC_STORE_FAILURES)
WATCH_REFUSED: Final = _counter(semconv.METRIC_WATCH_REFUSED)
INTERNAL_ERRORS: Final = _counter(semconv.METRIC_INTERNAL_ERRORS)
MODEL_TOKENS: Final = _counter(semconv.METRIC_MODEL_TOKENS)
MODEL_REQUESTS: Final = _counter(semconv.METRIC_MODEL_REQUESTS)
MODEL_COST: Final = _counter(semconv.METRIC_MODEL_COST)

# --- metrics of the collector ------------------------------------------------------
TRIP_EVENTS: Final = "loopguard_trip_events_total"
RECEIVED_SPANS: Final = "otelcol_receiver_accepted_spans"
UNDECIDED_TRACES: Final = "otelcol_processor_tail_sampling_sampling_traces_on_memory"
SENT_SPANS: Final = "otelcol_exporter_sent_spans"
QUEUE_SIZE: Final = "otelcol_exporter_queue_size"
QUEUE_CAPACITY: Final = "otelcol_exporter_queue_capacity"
LOSSES: Final = {
    "otelcol_receiver_refused": "refused",
    "otelcol_exporter_enqueue_failed": "dropped at a full queue",
    "otelcol_exporter_send_failed": "dropped after a failed export",
}
"""The beginning of each counter of lost data, and the loss in words. The counter ends with a key of ``LOST_ITEMS``."""
LOST_ITEMS: Final = {"spans": "spans", "metric_points": "metric points", "log_records": "log records"}
UP: Final = "up"
COLLECTOR_JOB: Final = "loopguard"
"""The job that scrapes the collector. The series of applications keep a ``job`` of their own there."""

# --- labels ------------------------------------------------------------------------------------------------------
JOB: Final = "job"
INSTANCE: Final = "instance"
MODE: Final = _underscored(semconv.MODE)
VERDICT: Final = _underscored(semconv.VERDICT)
ACTION: Final = _underscored(semconv.ACTION)
TOOL: Final = _underscored(semconv.TOOL_NAME)
AGENT: Final = _underscored(semconv.AGENT_NAME)
BUDGET_ACCOUNT: Final = _underscored(semconv.BUDGET_ACCOUNT)
FIRST: Final = _underscored(semconv.TURN_FIRST)
OUTCOME: Final = _underscored(semconv.OUTCOME)
ERROR_TYPE: Final = _underscored(semconv.ERROR_TYPE)
WATCH_REASON: Final = _underscored(semconv.WATCH_REASON)
SITE: Final = _underscored(semconv.SITE)
MODEL: Final = _underscored(semconv.REQUEST_MODEL)
CURRENCY: Final = _underscored(semconv.CURRENCY)
LOOP_OR_WORK: Final = _underscored(semconv.LOOP_OR_WORK)
USAGE: Final = _underscored(semconv.USAGE)
