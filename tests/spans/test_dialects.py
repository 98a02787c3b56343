"""Equal verdicts on spans read live, from the SDK, and by ``replay``, from OTLP JSON."""

from __future__ import annotations

import json
import logging
import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from otel_loopguard import semconv
from otel_loopguard.cli.main import main
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.guard.guard import Guard
from otel_loopguard.spans import dialects
from otel_loopguard.spans.dialects import SpanView
from tests.engine.judges.seed import HINT, SEED
from tests.telemetry.watching import all_spans, calls, watching

from .samples import SAMPLES, WITHOUT_CONTENT, Call, Sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Tracer

REFUSALS = {str(action) for action in Action if action >= Action.REUSE}
TOOLS = ("read_file", "search", "write_file", "run_tests", "get_status")
RESULTS = ("ok", "nothing", "queued", "the same text", "took 3.2s", "12 of 40", "Error: no such file")


def call(number: int, tool: str = "read_file", path: str = "a", result: str = "text", error: str | None = None) -> Call:
    """A call with two arguments."""
    return Call(tool, {"path": path, "deep": True}, result, number, error)


def drawn(seed: int) -> list[Call]:
    """Calls drawn from the seed, with repeats, errors and results that differ in numbers only."""
    rng = random.Random(seed)
    tools, results = rng.sample(TOOLS, rng.choice((1, 2, 3))), rng.sample(RESULTS, rng.choice((1, 2, 5)))
    variety, failing = rng.choice((1, 1, 2, 9)), rng.choice((0, 0.2, 0.7))
    return [
        call(
            number,
            rng.choice(tools),
            f"p{rng.randrange(variety)}",
            rng.choice(results),
            f"no such thing: {rng.choice('ab')}" if rng.random() < failing else None,
        )
        for number in range(rng.randint(4, 20))
    ]


def play(
    sample: Sample,
    made: list[Call],
    tmp_path: Any,
    capfdbinary: Any,
    *,
    content: bool = True,
    before: Callable[[Tracer], None] = lambda _: None,
) -> tuple[Any, Any]:
    """Watch the calls live, then replay the spans that were exported; the trips of both: tool, mode, verdict.

    ``before`` gets the tracer before each call.
    """
    with watching() as recording:
        tracer = recording.tracer_provider.get_tracer(sample.scope)
        with tracer.start_as_current_span("message"):
            for one in made:
                before(tracer)
                sample.record(tracer, one, content=content)
        assert calls(recording) == len(made)
        spans = [span for span in all_spans(recording) if span.instrumentation_scope.name != semconv.SCOPE]
        live = [
            (str(attributes[semconv.TOOL_NAME]), str(attributes[semconv.MODE]), str(attributes[semconv.VERDICT]))
            for span in all_spans(recording)
            for event in span.events
            if event.name == semconv.EVENT_TRIP and (attributes := event.attributes or {})
        ]
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps(MessageToDict(encode_spans(spans))) + "\n")
    capfdbinary.readouterr()
    assert main(["replay", "--json", str(path)]) == 0
    (line,) = map(json.loads, capfdbinary.readouterr().out.splitlines())
    named = [sample_tool(sample, one) for one in made]
    replayed = [(named[trip["call"]], trip["mode"], trip["action"]) for trip in line["trips"]]
    return live, replayed


def sample_tool(sample: Sample, one: Call) -> str:
    """The name of the tool as the dialect writes it."""
    return sample.span_name.format(one.tool).removeprefix("execute_tool ") if "P-" in sample.span_name else one.tool


def until_refused(trips: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The trips up to the first refusal. After it the program would have gone on differently."""
    first = next((index for index, trip in enumerate(trips) if trip[2] in REFUSALS), len(trips))
    return trips[: first + 1]


@pytest.mark.parametrize("dialect", SAMPLES)
def test_live_and_replay_agree(dialect: str, tmp_path: Any, capfdbinary: Any) -> None:
    """Live and replayed spans have equal modes, tools and verdicts up to the first refusal."""
    looping = 0
    for seed in range(SEED, SEED + 100):
        live, replayed = play(SAMPLES[dialect], drawn(seed), tmp_path, capfdbinary)
        assert until_refused(live) == until_refused(replayed), f"seed {seed}; {HINT}"
        looping += bool(live)
        if looping == 3 and seed >= SEED + 5:
            break
    assert looping >= 3


REQUESTS = ({"gen_ai.operation.name": "chat"}, {"openinference.span.kind": "LLM"})


@pytest.mark.parametrize("dialect", SAMPLES)
def test_live_and_replay_agree_about_slow_models(
    dialect: str, tmp_path: Any, capfdbinary: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdicts are equal if the agent waits and its model thinks, for up to a minute before each call."""
    now = [1_700_000_000.0]
    monkeypatch.setattr("otel_loopguard.instrumentation.runtime.Guard", partial(Guard, clock=lambda: now[0]))
    monkeypatch.setattr("opentelemetry.sdk.trace.time_ns", lambda: int(now[0] * 1e9))
    stuck = [call(number) for number in range(3)]
    # No wait is equal to another: live seconds are rounded, so a tie of two sums is decided either way.
    runs = [(0, stuck, 0), *((seed, drawn(seed), 40) for seed in range(SEED, SEED + 5))]
    for seed, made, longest in runs:
        for told in (True, False):
            rng = random.Random(seed)

            def before(tracer: Tracer, rng: Any = rng, longest: Any = longest, told: bool = told) -> None:
                now[0] += rng.choice((0, 0, rng.uniform(0, longest), rng.uniform(0, longest)))
                thought, attributes = rng.uniform(10, 60), rng.choice(REQUESTS) if told else {}
                with tracer.start_as_current_span("chat", attributes=attributes):
                    now[0] += thought

            live, replayed = play(SAMPLES[dialect], made, tmp_path, capfdbinary, before=before)
            assert until_refused(live) == until_refused(replayed), f"seed {seed}; {HINT}"
            if made is stuck:
                assert any(trip[2] in REFUSALS for trip in live) is told


@pytest.mark.parametrize("dialect", SAMPLES)
def test_a_repeat_is_found_both_ways(dialect: str, tmp_path: Any, capfdbinary: Any) -> None:
    """The third call that returns nothing new is refused."""
    live, replayed = play(SAMPLES[dialect], [call(number) for number in range(3)], tmp_path, capfdbinary)
    assert [trip[1:] for trip in live] == [("generic_repeat", "nudge"), ("generic_repeat", "block")]
    assert live == replayed


@pytest.mark.parametrize("dialect", SAMPLES)
def test_calls_of_a_tool_without_parameters_are_judged_both_ways(dialect: str, tmp_path: Any, capfdbinary: Any) -> None:
    """Their arguments are ``{}``, and the span shows that content is recorded: it has the result."""
    made = [Call("read_clock", {}, "text", number) for number in range(3)]
    live, replayed = play(SAMPLES[dialect], made, tmp_path, capfdbinary)
    assert [trip[1:] for trip in live] == [("generic_repeat", "nudge"), ("generic_repeat", "block")]
    assert live == replayed


@pytest.mark.parametrize("dialect", sorted(SAMPLES.keys() - {"adk", "langsmith"}))
def test_failing_calls_of_a_tool_without_parameters_are_judged_both_ways(
    dialect: str, tmp_path: Any, capfdbinary: Any
) -> None:
    """ADK and LangSmith write ``{}`` also for what they hide, and show no result of a call that failed."""
    made = [Call("take_snapshot", {}, "text", number, "no page is open") for number in range(6)]
    live, replayed = play(SAMPLES[dialect], made, tmp_path, capfdbinary)
    assert [trip[1:] for trip in until_refused(live)] == [("generic_repeat", "nudge"), ("generic_repeat", "block")]
    assert until_refused(live) == until_refused(replayed)


@pytest.mark.parametrize("dialect", SAMPLES)
def test_new_results_and_new_arguments_are_no_loop_both_ways(dialect: str, tmp_path: Any, capfdbinary: Any) -> None:
    """Work looks like work in every dialect."""
    words = ("ant", "bee", "cat", "dog", "eel", "fox")
    made = [call(number, path=word, result=f"the text of {word}") for number, word in enumerate(words)]
    made += [call(number, path="state", result=f"now it is {word}") for number, word in enumerate(words, len(words))]
    assert play(SAMPLES[dialect], made, tmp_path, capfdbinary) == ([], [])


@pytest.mark.parametrize("dialect", SAMPLES)
def test_errors_are_errors_both_ways(dialect: str, tmp_path: Any, capfdbinary: Any) -> None:
    """One shape of error, on arguments that differ, is an error loop."""
    words = ("one", "two", "three", "four")
    made = [call(number, path=word, error="no such file") for number, word in enumerate(words)]
    live, replayed = play(SAMPLES[dialect], made, tmp_path, capfdbinary)
    assert {trip[1] for trip in live} == {"error_repeat"}
    assert live == replayed


@pytest.mark.parametrize("dialect", {**SAMPLES, **WITHOUT_CONTENT})
def test_calls_without_arguments_are_not_judged_both_ways(
    dialect: str, tmp_path: Any, capfdbinary: Any, caplog: Any
) -> None:
    """Calls without arguments are counted, and one warning reports that they cannot be judged."""
    made = [call(number, error="no" if number % 2 else None) for number in range(20)]
    sample = {**SAMPLES, **WITHOUT_CONTENT}[dialect]
    with caplog.at_level(logging.WARNING, "otel_loopguard"):
        assert play(sample, made, tmp_path, capfdbinary, content=False) == ([], [])
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith(f"The tool spans of {sample.scope} have no arguments")
    assert main(["replay", str(tmp_path / "traces.jsonl")]) == 0
    assert b"20 calls without arguments in the span: counted, and not judged." in capfdbinary.readouterr().out


@pytest.mark.parametrize("dialect", SAMPLES)
def test_the_whole_call_is_read(dialect: str) -> None:
    """Name, arguments and result of each dialect."""
    sample, one = SAMPLES[dialect], call(1, result="the text")
    events = [] if sample.events is None else list(sample.events(one))
    found = dialects.read(SpanView(sample.span_name.format(one.tool), sample.attributes(one), events))
    assert found is not None
    assert found.has_arguments
    assert found.has_result
    assert found.call.tool == sample_tool(sample, one)
    if dialect != "opentelemetry-hashes":
        assert found.call.arguments == one.arguments
        assert "the text" in str(found.outcome.result)
        assert f"call-{one.number}" not in str(found.outcome.result)


def test_a_span_name_alone_makes_no_tool_call() -> None:
    """A span's name identifies a tool call only while the span is open, because attributes may be set at its end."""
    assert dialects.read(SpanView("execute_tool look", {})) is None
    assert dialects.tool_name("execute_tool look", {}) is None
    assert dialects.open_tool_name("execute_tool look", {}) == "look"
    assert dialects.open_tool_name("execute_tool look", {"gen_ai.operation.name": "chat"}) is None
    assert dialects.open_tool_name("GET /", {}) is None


def test_merged_tools_are_no_call() -> None:
    """ADK makes one more span for the calls of a batch."""
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"}
    assert dialects.tool_name("execute_tool (merged)", attributes) is None
    assert dialects.read(SpanView("execute_tool (merged)", attributes)) is None


def test_the_result_of_a_failed_call_is_its_error() -> None:
    """The result of a failed call is its error if no exception or description has more than the type."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.arguments": '{"path": "a"}',
        "gen_ai.tool.call.result": '{"error": "no such file"}',
        "error.type": "TOOL_ERROR",
    }
    found = dialects.read(SpanView("execute_tool look", attributes, failed=True, description="TOOL_ERROR"))
    assert found is not None
    assert (found.outcome.result, found.outcome.is_error) == ({"error": "no such file"}, True)
