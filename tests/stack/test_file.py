"""The collector's file on disk: it has the events, and no argument, prompt or host."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from otel_loopguard import semconv

from .harness.application import SECRET
from .harness.collector import attributes_of, tripped
from .harness.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Stack
    from .harness.application import Application
    from .harness.collector import Collector


def keys(item: dict[str, Any]) -> set[str]:
    return set(attributes_of(item))


def test_file_holds_the_event_and_nothing_else_that_was_said(
    make_collector: Callable[..., Collector], make_application: Callable[..., Application]
) -> None:
    """Of a trace full of prompts the file keeps loopguard's spans, their trips and harmless keys."""
    collector = make_collector(LOOPGUARD_SAMPLING_PERCENTAGE="100")
    agent = make_application(collector)
    agent.turn("generic_repeat")
    agent.turn()
    agent.flush()
    wait_until("6 spans of ours in the file", lambda: len(collector.file_spans()) >= 6)
    spans = collector.file_spans()

    assert SECRET not in collector.file_text()
    assert len(spans) == 6
    assert [attributes_of(e)["loopguard.mode"] for s in spans if tripped(s) for e in s["events"]] == ["generic_repeat"]
    allowed = {"gen_ai.operation.name", "gen_ai.tool.name", "loopguard.arguments_hash"}
    trip = {"loopguard.mode", "loopguard.verdict", "loopguard.action"}
    assert {frozenset(keys(span)) for span in spans} == {frozenset(allowed), frozenset(allowed | trip)}
    event = next(span for span in spans if tripped(span))["events"][0]
    assert trip | {"gen_ai.tool.name", "loopguard.count", "loopguard.turn.first"} <= keys(event)
    assert all(key.startswith("loopguard.") or key == "gen_ai.tool.name" for key in keys(event))


def test_file_names_the_service_and_no_other_resource(
    make_collector: Callable[..., Collector], make_application: Callable[..., Application]
) -> None:
    """A resource can hold command lines and host names: service.* is what stays."""
    collector = make_collector()
    agent = make_application(collector, "named")
    agent.turn("generic_repeat")
    agent.flush()
    text = wait_until("something in the file", collector.file_text)

    resources = [each for line in text.splitlines() for each in json.loads(line)["resourceSpans"]]
    assert {key for each in resources for key in keys(each["resource"])} <= {"service.name", "service.instance.id"}
    assert attributes_of(resources[0]["resource"])["service.name"] == "named"
    assert {scope["scope"]["name"] for each in resources for scope in each["scopeSpans"]} == {"otel_loopguard"}


def test_of_an_error_the_file_has_the_class_alone(
    make_collector: Callable[..., Collector], make_application: Callable[..., Application]
) -> None:
    """An instrumentation that records exceptions puts their text, and so arguments, into the status."""
    from opentelemetry.trace import Status, StatusCode

    collector = make_collector()
    agent = make_application(collector)
    with agent.call() as span:
        agent.trip(span, "error_repeat")
        span.set_attribute(semconv.ERROR_TYPE, "ValueError")
        span.set_status(Status(StatusCode.ERROR, f"ValueError: {SECRET}"))
    agent.flush()
    (span_written,) = wait_until("the span in the file", collector.file_spans)

    assert span_written["status"] == {"code": 2}
    assert attributes_of(span_written)[semconv.ERROR_TYPE] == "ValueError"
    assert SECRET not in collector.file_text()


def test_file_is_rotated_and_survives_a_restart(
    make_collector: Callable[..., Collector], make_application: Callable[..., Application]
) -> None:
    """Old files are put aside and thrown away; a restarted collector goes on in the file it had."""
    settings = {"LOOPGUARD_FILE_MAX_MEGABYTES": "1", "LOOPGUARD_FILE_MAX_BACKUPS": "2"}
    collector = make_collector(**settings)
    agent = make_application(collector)
    for _ in range(4):
        for _ in range(200):
            agent.turn("cycle", calls=5)
        agent.flush()
    wait_until("two files beside the current one", lambda: len(list(collector.state.glob("traces/*.jsonl"))) == 3)
    before = len(collector.file_spans())
    collector.stop()
    collector.start()
    collector.wait_ready()

    assert before > 0
    assert len(collector.file_spans()) >= before


def test_calls_without_a_parent_are_all_written_once(
    make_collector: Callable[..., Collector], make_application: Callable[..., Application]
) -> None:
    """Each is a trace of its own, looping or not: sampled, a turn would be torn apart, and could not be replayed."""
    collector = make_collector(LOOPGUARD_SAMPLING_PERCENTAGE="0")
    agent = make_application(collector)
    for number in range(20):
        with agent.call() as span:
            if number >= 10:
                agent.trip(span, "cycle")
    agent.turn()
    agent.flush()
    wait_until("20 calls in the file", lambda: len(collector.file_spans()) >= 20)
    time.sleep(3)

    spans = collector.file_spans()
    assert len({span["spanId"] for span in spans}) == len(spans) == 20


def test_shared_stack_keeps_every_looping_trace_and_few_others(
    stack: Stack, make_application: Callable[..., Application]
) -> None:
    """Under 1 % sampling no trace with a trip is missing from the file."""
    agent = make_application(stack.collector, "kept")
    for number in range(300):
        agent.turn(*(["generic_repeat"] if number % 10 == 0 else []))
    agent.flush()

    def kept() -> set[str]:
        return {span["traceId"] for span in stack.collector.file_spans()}

    wait_until("all looping traces in the file", lambda: agent.looping_traces <= kept())
    assert len(kept() & agent.other_traces) < 20
