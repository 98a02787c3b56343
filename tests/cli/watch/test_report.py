"""Watched services are reported as guarded programs are: the same metrics and log records, under their own names."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import otel_loopguard as loopguard
from benchmarks.telemetry import watching
from otel_loopguard.cli.watch import report as reports
from otel_loopguard.testing import guarded

from .messages import agent, call, message, request, vercel_call
from .test_turns import stuck_requests

if TYPE_CHECKING:
    import pytest
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData


class Watched:
    """The telemetry of a watch of some messages."""

    def __init__(self, *messages: TracesData) -> None:
        with watching(window=0.0) as (judge, metrics, logs):
            for one in messages:
                assert judge.take(one.SerializeToString())
        self.resources = [dict(one.resource.attributes) for one in metrics.data.resource_metrics]
        self._metrics = metrics.data.resource_metrics
        self.logs = list(logs.get_finished_logs())

    def points(self, metric: str, service: str) -> list[Any]:
        """The data points of one metric of a service."""
        return [
            point
            for resource in self._metrics
            if resource.resource.attributes["service.name"] == service
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric
            for point in one.data.data_points
        ]

    def sums(self, metric: str, service: str, *labels: str) -> dict[Any, int]:
        """The values of a counter that are not zero, by the labels named."""
        found: Counter[Any] = Counter()
        for one in self.points(metric, service):
            found[tuple(one.attributes[label] for label in labels)] += one.value
        return {key: value for key, value in found.items() if value}


def loop(service: str, calls: int = 6, trace: int = 1, **more: Any) -> TracesData:
    """A message with equal calls."""
    return message(*(call(number, trace=trace, **more) for number in range(1, calls + 1)), service=service)


def test_each_service_has_its_own_resource_and_the_watcher_is_their_instance() -> None:
    """So in Prometheus ``job`` is the watched service, and two watchers of one service are two instances."""
    seen = Watched(loop("one"), message(call(1, trace=2), service="two", namespace="shop"))
    names = {one["service.name"]: one for one in seen.resources}

    assert names.keys() == {"otel-loopguard-watch", "one", "two"}
    assert names["two"]["service.namespace"] == "shop"
    assert len({one["service.instance.id"] for one in seen.resources}) == 1
    assert seen.sums("loopguard.tool_calls", "one", "gen_ai.tool.name", "loopguard.outcome") == {
        ("search", "executed"): 6
    }
    assert seen.sums("loopguard.trips", "two", "loopguard.mode") == {}


def test_trips_are_those_that_the_guard_makes_in_a_process() -> None:
    """Metrics, labels and numbers are those of a program in which the guard refuses. Only the action is another one."""
    names = ("loopguard.trips", "loopguard.tool.trips", "loopguard.turns.tripped", "loopguard.turns.looping")
    with guarded() as recording:
        with loopguard.turn():
            for _ in range(6):
                loopguard.call("search", {"q": "x"}, lambda q: "nothing")
        data: Any = recording._metrics.get_metrics_data()
    inside = {
        one.name: [point for point in one.data.data_points if point.value]
        for one in data.resource_metrics[0].scope_metrics[0].metrics
        if one.name in names
    }
    seen = Watched(loop("one"))

    for name in names:
        points = [one for one in seen.points(name, "one") if one.value]
        assert {tuple(sorted(one.attributes)) for one in points} == {
            tuple(sorted(one.attributes)) for one in inside[name]
        }
        assert {one.attributes.get("loopguard.action", "observe") for one in points} == {"observe"}
    verdicts = Counter({one.attributes["loopguard.verdict"]: one.value for one in inside["loopguard.trips"]})
    assert seen.sums("loopguard.trips", "one", "loopguard.verdict") == {(key,): verdicts[key] for key in verdicts}
    assert verdicts == {"nudge": 1, "block": 4}
    assert seen.sums("loopguard.turns.looping", "one") == {(): 1}


def test_the_log_record_names_the_call_its_turn_and_its_agent() -> None:
    """It is complete without its span, and linked to it; its time is that of the call's end."""
    run = agent(9, gen_ai__agent__name="helper", gen_ai__conversation__id="talk")
    calls = [vercel_call(number, parent=9, ai__toolCall__id=f"id-{number}") for number in range(1, 4)]
    seen = Watched(message(run, *calls, service="shop-agent"))
    last = seen.logs[-1]
    record = getattr(last, "log_record", last)
    attributes = dict(record.attributes)

    assert last.resource.attributes["service.name"] == "shop-agent"
    assert record.event_name == "loopguard.tool_loop_detected"
    assert attributes.pop("loopguard.turn.id").startswith("blake2b-64:")  # the id of a conversation may name a user
    assert attributes.pop("loopguard.arguments_hash").startswith("blake2b-64:")
    assert attributes == {
        "loopguard.turn.source": "conversation",
        "gen_ai.conversation.id": "talk",
        "gen_ai.agent.name": "helper",
        "gen_ai.tool.call.id": "id-3",
        "gen_ai.tool.name": "search",
        "loopguard.tool.kind": "read",
        "loopguard.turn.call_index": 2,
        "loopguard.mode": "generic_repeat",
        "loopguard.verdict": "block",
        "loopguard.action": "observe",
        "loopguard.count": 3,
        "loopguard.limit": 3,
        "loopguard.limit_reason": "repeat",
        "loopguard.period": 1,
        "loopguard.first_seen_index": 0,
        "loopguard.turn.first": "no",
    }
    assert (record.trace_id, record.span_id, record.timestamp) == (1, 3, calls[-1].end_time_unix_nano)


def test_no_value_of_a_call_is_exported() -> None:
    """Arguments and results are judged, and leave as keyed hashes only. A name that is no plain one is hidden."""
    secret = "S3CRET"
    calls = [call(number, tool=f"{secret} tool", arguments=f'{{"q":"{secret}"}}', result=secret) for number in range(9)]
    seen = Watched(message(*calls, service="one"))

    assert seen.logs
    assert secret not in repr([seen.resources, seen._metrics, seen.logs])
    assert list(seen.sums("loopguard.tool_calls", "one", "gen_ai.tool.name")) == [("_unknown",)]


def test_the_number_of_services_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs memory for good. Those beyond the first ones share a name, and no call is left out."""
    monkeypatch.setattr(reports, "MOST_SERVICES", 3)
    seen = Watched(*(loop(f"s{number}", calls=2, trace=number) for number in range(1, 7)))

    names = [one["service.name"] for one in seen.resources]
    assert names == ["otel-loopguard-watch", "s1", "s2", "s3", "_other"]
    assert seen.sums("loopguard.tool_calls", "_other", "gen_ai.tool.name") == {("search",): 6}


def test_a_span_without_arguments_or_results_is_counted_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """The log names the service, the instrumentation and the remedy."""
    without = {"gen_ai__tool__call__arguments": "", "gen_ai__tool__call__result": ""}
    seen = Watched(
        message(*(call(number, **without) for number in range(1, 9)), service="go-agent", scope="go-lib"),
        message(*(call(number, trace=2, result="") for number in range(1, 9)), service="go-agent", scope="go-lib"),
    )

    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if "go-lib" in line and "no arguments" in line and "content" in line] == lines[:1]
    assert [line for line in lines if "go-lib" in line and "no results" in line] == lines[1:2]
    assert seen.sums("loopguard.tool_calls", "go-agent", "gen_ai.tool.name") == {("search",): 16}
    assert not seen.logs


def test_the_first_refusal_of_a_service_and_mode_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A user sees that the watcher works. Further ones are exported alone."""
    Watched(loop("one", calls=9), loop("one", calls=9, trace=2), loop("two", calls=9, trace=3))

    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(":")[0] for line in lines] == ["one", "two"]
    assert all("would have refused search" in line and "generic_repeat" in line for line in lines)


def test_the_watcher_counts_the_fates_of_spans() -> None:
    """Received, judged, copied: under the watcher's own name."""
    seen = Watched(loop("one"), loop("one"))
    own = "otel-loopguard-watch"

    assert seen.sums("loopguard.watch.spans", own) == {(): 12}
    assert seen.sums("loopguard.watch.tool_spans", own, "loopguard.watch.fate") == {("judged",): 6, ("duplicate",): 6}
    assert [one.value for one in seen.points("loopguard.watch.queue", own)] == [0]
    assert [one.value for one in seen.points("loopguard.watch.waiting", own)] == [0]


def test_a_loop_of_words_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It has no tool. The line of the log comes once."""
    seen = Watched(message(*stuck_requests(9), service="talker"))
    assert seen.sums("loopguard.trips", "talker", "loopguard.mode", "loopguard.action").keys() == {
        ("text_repeat", "observe")
    }
    modes = [dict(one.log_record.attributes or {})["loopguard.mode"] for one in seen.logs]
    assert set(modes) == {"text_repeat"}
    lines = [one.getMessage() for one in caplog.records if "text_repeat" in one.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("talker: would have stopped ")


def test_the_tokens_of_a_turn_are_measured_by_its_agent() -> None:
    """They are those of its requests, also of one after its last call."""
    used = {"gen_ai__usage__input_tokens": 90, "gen_ai__usage__output_tokens": 10}
    spans = [agent(1, gen_ai__agent__name="helper")]
    spans += [one(number, parent=1, **more) for number, (one, more) in enumerate(((request, used), (call, {})) * 2, 2)]
    seen = Watched(message(*spans, request(6, parent=1, **used), service="one"), loop("two", trace=2))

    (tokens,) = seen.points("loopguard.turn.tokens", "one")
    assert (tokens.count, tokens.sum, tokens.attributes["gen_ai.agent.name"]) == (1, 300, "helper")
    assert seen.points("loopguard.turn.tokens", "two") == []  # its requests are not seen
