"""The metrics of the GenAI conventions: one measurement for each span that is ours, and none where others measure."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.metrics import Meter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import INVALID_SPAN_CONTEXT

import otel_loopguard as loopguard
from otel_loopguard import Policy, semconv
from otel_loopguard.engine.ledger import REQUEST_SENT
from otel_loopguard.instrumentation.model_api import Sent
from otel_loopguard.instrumentation.models.anthropic import MESSAGES
from otel_loopguard.instrumentation.models.google_genai import GENERATE_CONTENT
from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.instrumentation.models.openai_responses import RESPONSES
from otel_loopguard.telemetry import genai_meters
from otel_loopguard.telemetry.run_span import RunSpan
from otel_loopguard.telemetry.settings import Settings
from otel_loopguard.testing import ScriptedAgent, guarded
from otel_loopguard.turns.messages import Reply
from otel_loopguard.turns.scope import Scope
from tests.telemetry.agents import look, stuck

if TYPE_CHECKING:
    from otel_loopguard.instrumentation.model_api import Dialect
    from otel_loopguard.testing import Recording

TAKES_BOUNDS = "explicit_bucket_boundaries_advisory" in inspect.signature(Meter.create_histogram).parameters
"""OpenTelemetry 1.30 added the bounds of a histogram."""
TOOL = {"gen_ai.tool.name": "look", "gen_ai.tool.type": "function"}
METRICS = (
    semconv.METRIC_EXECUTE_TOOL_DURATION,
    semconv.METRIC_INVOKE_AGENT_DURATION,
    semconv.METRIC_INVOKE_AGENT_TOOL_CALLS,
)
TOKENS = (semconv.METRIC_INPUT_TOKENS, semconv.METRIC_OUTPUT_TOKENS, semconv.METRIC_CACHE_READ_TOKENS)
USED = Reply(input_tokens=900, output_tokens=80, cached_tokens=500)


def series(recording: Recording, metric: str = METRICS[0]) -> list[dict[str, Any]]:
    """The attributes of each series, with its number of measurements as ``count``."""
    return [{**point.attributes, "count": point.count} for point in recording.points(metric)]


def run_agent(recording: Recording, calls: int = 0, error: Exception | None = None) -> None:
    """Make calls in a run of an agent, with the run's own span around it."""
    runtime = recording.runtime
    assert runtime is not None
    turn = runtime.guard.turn()
    run = RunSpan.start(runtime.providers, Scope(turn, agent_name="planner"))
    assert run is not None
    turn.current.history.calls += calls
    run.end(error)


def infer(recording: Recording, reply: Reply = USED, dialect: Dialect = CHAT) -> None:
    """Make a request to a model in a turn, as the patched method of a client does, and get this reply."""
    runtime, sending = recording.runtime, replace(dialect, reply=lambda _: reply)
    assert runtime is not None
    body = {"messages": [], "input": [], "contents": []}
    with loopguard.turn():
        exchange = runtime.reader.open(Sent(sending, body, "gpt-5", lambda _: ((), {}), lambda whole, _: whole))
        exchange.judge_calls()
        exchange.prepare(lambda: loopguard.ToolLoopError, (), {})
        exchange.whole(None)


def test_the_duration_of_a_call_is_that_of_its_span() -> None:
    """Its attributes are the tool, its type and the agent; its exemplar names the span."""
    with guarded() as recording:
        ScriptedAgent({"look": look}, [("look", {"path": "a"})], agent_name="planner").run()
        (span,) = recording.spans
        (point,) = recording.points(METRICS[0])
        assert dict(point.attributes) == {**TOOL, "gen_ai.agent.name": "planner"}
        assert point.sum == (span.end_time - span.start_time) / 1e9  # type: ignore[operator]
        if TAKES_BOUNDS:
            assert point.explicit_bounds[:3] + point.explicit_bounds[-1:] == (0.01, 0.02, 0.04, 81.92)
        assert [exemplar.span_id for exemplar in point.exemplars] == [span.context.span_id]


def test_a_refused_call_has_an_error_type() -> None:
    """A dashboard tells it from a call that worked quickly."""
    with guarded() as recording:
        assert stuck() == [2]
        assert series(recording) == [
            {**TOOL, "count": 2},
            {**TOOL, "error.type": "tool_loop_detected", "count": 1},
        ]


def test_a_failed_call_has_the_class_of_its_error() -> None:
    """Not its text, which may quote an argument."""

    def fail(path: str) -> str:
        raise FileNotFoundError(path)

    with guarded() as recording:
        with loopguard.turn(), pytest.raises(FileNotFoundError):
            loopguard.call("look", {"path": "secret"}, fail)
        assert series(recording) == [{**TOOL, "error.type": "FileNotFoundError", "count": 1}]


def test_calls_are_measured_though_their_spans_are_sampled_out() -> None:
    """A rate that depends on the sampler would be wrong."""
    with guarded(sampler=ALWAYS_OFF) as recording:
        stuck()
        run_agent(recording)
        assert recording.spans == []
        assert [recording.counted(metric) for metric in METRICS] == [3, 2, 2]  # the block's turn is a run, too


def test_a_run_is_measured_with_its_span() -> None:
    """Its duration, its tool calls and the class of its error."""
    with guarded() as recording:
        run_agent(recording, calls=7)
        run_agent(recording, calls=1, error=ValueError("secret"))
        agent = {"gen_ai.agent.name": "planner"}
        assert series(recording, METRICS[1]) == [
            {**agent, "count": 1},
            {**agent, "error.type": "ValueError", "count": 1},
        ]
        (calls,) = recording.points(METRICS[2])
        assert (dict(calls.attributes), calls.sum, calls.count) == (agent, 8, 2)


def test_the_numbers_of_a_run_have_the_bounds_of_the_conventions() -> None:
    """Those of calls and of model requests are doubled from 1 to 128."""
    with guarded() as recording:
        assert recording.runtime is not None
        turn = recording.runtime.guard.turn()
        run = RunSpan.start(recording.runtime.providers, Scope(turn, agent_name="planner"))
        assert run is not None
        turn.spend(REQUEST_SENT)
        run.end(None)
        for metric in (semconv.METRIC_INVOKE_AGENT_TOOL_CALLS, semconv.METRIC_INVOKE_AGENT_INFERENCE_CALLS):
            (point,) = recording.points(metric)
            assert dict(point.attributes) == {"gen_ai.agent.name": "planner"}
            if TAKES_BOUNDS:
                assert point.explicit_bounds == (1, 2, 4, 8, 16, 32, 64, 128)


def test_they_can_be_switched_off() -> None:
    """By a setting; the others are recorded all the same."""
    with guarded(settings=Settings(genai_metrics=False)) as recording:
        stuck()
        run_agent(recording)
        infer(recording)
        assert [recording.points(metric) for metric in (*METRICS, *TOKENS)] == [[]] * 6
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 3
        assert recording.counted(semconv.METRIC_MODEL_TOKENS) == 980


@pytest.mark.parametrize(
    ("dialect", "operation", "provider"),
    [
        (CHAT, "chat", "openai"),
        (RESPONSES, "chat", "openai"),
        (MESSAGES, "chat", "anthropic"),
        (GENERATE_CONTENT, "generate_content", "gcp.gen_ai"),
    ],
)
def test_the_tokens_of_a_request_name_its_api_and_model(dialect: Dialect, operation: str, provider: str) -> None:
    """The input with the cached part, that part alone, and the output; what a provider does not tell is zero."""
    with guarded() as recording:
        infer(recording, dialect=dialect)
        infer(recording, Reply(), dialect)
        labels = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": "gpt-5",
            "gen_ai.token.modality": "unknown",
        }
        found = [(point.value, dict(point.attributes)) for metric in TOKENS for point in recording.points(metric)]
        assert found == [(900, labels), (80, labels), (500, labels)]


@pytest.mark.parametrize("around", [True, False])
def test_tokens_that_another_instrumentation_measures_are_not_measured_twice(around: bool) -> None:
    """Its span is around the request, or one was before. The guard's own tokens, as loop or work, are counted on."""
    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("opentelemetry.instrumentation.openai")
        with tracer.start_as_current_span("chat gpt-5", attributes={"gen_ai.operation.name": "chat"}):
            if around:
                infer(recording)
        if not around:
            infer(recording)
        assert [recording.points(metric) for metric in TOKENS] == [[], [], []]
        assert recording.counted(semconv.METRIC_MODEL_TOKENS) == 980
        infer(recording, dialect=GENERATE_CONTENT)
        assert [recording.counted(metric) for metric in TOKENS] == [900, 80, 500]


def test_a_fault_of_the_metrics_loses_nothing_of_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is booked all the same; the fault is counted."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(genai_meters.GenAIMeters, "inference", fail)
    with guarded() as recording:
        infer(recording)
        assert recording.counted(semconv.METRIC_MODEL_TOKENS) == 980
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS, loopguard__site="usage.book") == 1


@pytest.mark.parametrize("around", [True, False])
def test_calls_that_another_instrumentation_measures_are_not_measured_twice(around: bool) -> None:
    """Another ``execute_tool`` span of the same call, inside ours or around it: its instrumentation has the metric."""
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("opentelemetry.instrumentation.langchain")

        def theirs() -> Any:
            return tracer.start_as_current_span("execute_tool look", attributes=attributes)

        def look_inside(path: str) -> str:
            with nullcontext() if around else theirs():
                return f"text of {path}"

        with loopguard.turn():
            for path in "abcd":
                with theirs() if around else nullcontext():
                    loopguard.call("look", {"path": path}, look_inside)
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 4
        # A span around the first call is only known when it has ended.
        assert recording.counted(METRICS[0]) == int(around)


def test_runs_that_another_instrumentation_measures_are_not_measured_twice() -> None:
    """Its ``invoke_agent`` span is inside ours. Calls are measured on."""
    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("opentelemetry.instrumentation.langchain")
        with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
            pass
        run_agent(recording)
        stuck()
        assert [recording.counted(metric) for metric in METRICS] == [3, 0, 0]


def test_a_span_of_the_mcp_protocol_is_no_measurement_of_the_call() -> None:
    """The conventions measure it by a metric of its own."""
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "mcp.method.name": "tools/call"}
    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("mcp-python-sdk")

        def look_remotely(path: str) -> str:
            with tracer.start_as_current_span("tools/call look", attributes=attributes):
                return f"text of {path}"

        with loopguard.turn():
            loopguard.call("look", {"path": "a"}, look_remotely)
        assert recording.counted(METRICS[0]) == 1


def test_no_duration_is_lost_or_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads make calls while the metrics are collected again and again, with a queue of eight."""
    monkeypatch.setattr(genai_meters, "MOST_WAITING", 8)
    with guarded(Policy(action="observe")) as recording:

        def work(number: int) -> None:
            for call in range(50):
                loopguard.call("look", {"path": f"{number} {call}"}, "text of {path}".format)

        with ThreadPoolExecutor(8) as pool:
            working = [pool.submit(work, number) for number in range(8)]
            while not all(one.done() for one in working):
                recording.points(METRICS[0])
            assert all(one.result() is None for one in working)
        assert recording.counted(METRICS[0]) == 400


def test_a_child_process_does_not_measure_the_calls_of_its_parent() -> None:
    """The parent records the durations that wait when it forks."""
    with guarded() as recording:
        stuck()
        assert recording.runtime is not None
        recording.runtime.providers.outlets().meters.after_fork()
        assert recording.points(METRICS[0]) == []
        stuck()
        assert recording.counted(METRICS[0]) == 3


def test_series_are_bounded() -> None:
    """The first 200 sets of attributes have one each; then names of tools, agents and errors are ``_other``."""
    with guarded() as recording:
        assert recording.runtime is not None
        genai = recording.runtime.providers.outlets().meters.genai
        for number in range(1_000):
            genai.tool_ran((1.0, f"tool {number}", "function", "planner", None, INVALID_SPAN_CONTEXT))
        found = series(recording)
        assert len(found) == 201
        assert found[-1] == {
            "gen_ai.tool.name": "_other", "gen_ai.tool.type": "_other", "gen_ai.agent.name": "_other", "count": 800,
        }  # fmt: skip
