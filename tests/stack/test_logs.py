"""Log records of trips reach the collector's file, from an unchanged program under opentelemetry-instrument."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from otel_loopguard import semconv

from .harness.agent import run_agent
from .harness.collector import attributes_of
from .harness.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from .harness.collector import Collector


def records(collector: Collector, service: str) -> list[dict[str, Any]]:
    """The log records of a service in the collector's file."""
    return [
        record
        for path in collector.state.glob("logs/*.jsonl")
        for line in path.read_text().splitlines()
        for resource in json.loads(line)["resourceLogs"]
        if attributes_of(resource["resource"]).get("service.name") == service
        for scope in resource["scopeLogs"]
        for record in scope["logRecords"]
    ]


def test_the_file_has_a_record_of_each_trip_and_no_line_of_the_programs_log(
    make_collector: Callable[..., Collector],
) -> None:
    """The program exports its own log, too, with our warnings in it. Records have the ids of their spans."""
    collector = make_collector()
    run = run_agent(collector, "--stubborn", OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED="true")
    made = sum(run.trips.values())

    def all_of_them() -> list[dict[str, Any]] | None:
        found = records(collector, "example")
        return found if len(found) >= made else None

    found = wait_until(f"{made} records", all_of_them)

    assert {record["eventName"] for record in found} == {"loopguard.tool_loop_detected"}
    assert len(found) == made
    assert {record["severityText"] for record in found} == {"INFO", "WARN", "ERROR"}
    spans = {span["context"]["span_id"].removeprefix("0x") for span in run.spans if span["events"]}
    assert {record["spanId"] for record in found} == spans
    text = json.dumps(found)
    assert "config.yaml" not in text
    allowed = {semconv.TOOL_NAME, semconv.TOOL_CALL_ID}
    keys = {key for record in found for key in attributes_of(record)}
    assert {key for key in keys if not key.startswith("loopguard.")} == allowed
    assert {semconv.TURN_ID, semconv.ARGUMENTS_HASH, semconv.MODE, semconv.ACTION} <= keys


def test_records_arrive_where_no_span_is_sampled(make_collector: Callable[..., Collector]) -> None:
    """They name the trace that the other parts of the request have."""
    collector = make_collector()
    run = run_agent(collector, "--stubborn", OTEL_TRACES_SAMPLER="always_off")
    found = wait_until("records", lambda: records(collector, "example"))

    assert run.spans == []
    assert all(len(record["traceId"]) == 32 and int(record["traceId"], 16) for record in found)
