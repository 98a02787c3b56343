"""A replay adds up the tokens of requests: in all, in loops, and after the end that the policy would have made."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import otel_loopguard as loopguard
from otel_loopguard import Policy, semconv
from otel_loopguard.cli.main import main
from tests.instrumentation.test_model_reader import Agent, at_once
from tests.models.scripts import Looping, call
from tests.models.server import Server

from . import made
from .test_span_buffer import exported, one_by_one

SECOND = 10**9
PRICED = """
abort_after = 2

[cost_per_million_tokens]
"gpt-*" = { input = 2.0, output = 10.0 }
"""


@pytest.fixture
def policy(tmp_path):
    """A policy that ends a run soon, and has prices."""
    path = tmp_path / "policy.toml"
    path.write_text(PRICED)
    return str(path)


def replayed(tmp_path, capfd, lines, *arguments) -> str:
    """The output of a replay of these lines."""
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    main(["replay", str(path), *arguments])
    return capfd.readouterr().out


def spent(tmp_path, capfd, lines, *arguments) -> dict[str, Any]:
    """The sums of the only run."""
    (line,) = replayed(tmp_path, capfd, lines, "--json", *arguments).splitlines()
    return json.loads(line)["spent"]


def numbers(sums: dict[str, Any]) -> tuple[Any, ...]:
    return sums["requests"], sums["input"], sums["output"]


def attribute(key: str, value: Any) -> dict[str, Any]:
    return {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}


def guarded_spans(calls: list[tuple[str, str]], requests: list[int]) -> list[Any]:
    """Our spans of one turn: calls with a path and a result. Each of ``requests`` is the position of a first call.

    The request of call number 3 has 1,003 tokens of input and 13 of output.
    """
    run = made.run("a", [made.call("read_file", {"path": path}, result) for path, result in calls])
    lines, _ = exported(None, run)
    spans = one_by_one(lines)
    for line in spans:
        found = line["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
        index = next(int(one["value"]["intValue"]) for one in found if one["key"] == semconv.CALL_INDEX)
        first = max(one for one in requests if one <= index)
        found[:] = [one for one in found if one["key"] != semconv.STEP] + [attribute(semconv.STEP, first)]
        if index in requests:
            found += [
                attribute(semconv.MODEL_NAME, "gpt-5"),
                attribute(semconv.MODEL_INPUT_TOKENS, 1_000 + index),
                attribute(semconv.MODEL_OUTPUT_TOKENS, 10 + index),
            ]
    return spans


def test_refused_calls_and_repeats_without_news_are_steps_of_loops(tmp_path, capfd):
    """The first call is work, also of another path, and a call with another result."""
    lines = guarded_spans([("a", "x"), ("a", "y"), ("a", "y"), ("b", "y")], [0, 1, 2, 3])
    found = spent(tmp_path, capfd, lines)
    assert numbers(found["all"]) == (4, 4_006, 46)
    assert numbers(found["in_loops"]) == (1, 1_002, 12)
    refused = guarded_spans([("a", "x")] * 5, [0, 1, 2, 3, 4])
    assert numbers(spent(tmp_path, capfd, refused)["in_loops"]) == (4, 4_010, 50)
    assert found["all"]["cost"] is None


def test_a_request_is_work_if_one_of_its_calls_is(tmp_path, capfd):
    """The second one wrote a repeat and a new call, the third one two repeats."""
    lines = guarded_spans([("a", "x"), ("a", "x"), ("b", "x"), ("a", "x"), ("b", "x")], [0, 1, 3])
    found = spent(tmp_path, capfd, lines)
    assert numbers(found["all"]) == (3, 3_004, 34)
    assert numbers(found["in_loops"]) == (1, 1_003, 13)


@pytest.mark.parametrize(("mode", "in_loops"), [("generic_repeat", 1), ("user_stop", 0)])
def test_a_call_that_the_user_stopped_is_no_step_of_a_loop(tmp_path, capfd, mode, in_loops):
    """It was refused, but repeated nothing."""
    lines = guarded_spans([("a", "x"), ("b", "x")], [0, 1])
    of_span = lines[1]["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    of_span[:] = [one for one in of_span if one["key"] != semconv.OUTCOME]
    of_span += [attribute(semconv.OUTCOME, "blocked"), attribute(semconv.MODE, mode)]
    assert spent(tmp_path, capfd, lines)["in_loops"]["requests"] == in_loops


def test_a_request_counts_whatever_order_its_spans_arrive_in(tmp_path, capfd):
    """The tokens are on the first call by its index."""
    lines = guarded_spans([("a", "x")] * 4, [0, 1, 2, 3])
    assert spent(tmp_path, capfd, lines) == spent(tmp_path, capfd, lines[::-1])


def chat(number: int, *, span: str = "", parent: str = "agent", trace: str = "t", tokens: int | None = 100) -> Any:
    """A model request of another instrumentation, which ends at this second."""
    usage = [] if tokens is None else [attribute("gen_ai.usage.input_tokens", tokens + number)]
    return line(
        trace,
        span or f"chat{number}",
        parent,
        (number * SECOND - SECOND // 2, number * SECOND),
        [
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.request.model", "gpt-5"),
            attribute("gen_ai.usage.output_tokens", 10),
            *usage,
        ],
    )


def tool(number: int, result: str, *, trace: str = "t") -> Any:
    """A tool call of another instrumentation, begun at this second."""
    at = number * SECOND + SECOND // 10
    return line(
        trace,
        f"tool{number}",
        "agent",
        (at, at + 1),
        [
            attribute("gen_ai.operation.name", "execute_tool"),
            attribute("gen_ai.tool.name", "read_file"),
            attribute("gen_ai.tool.call.arguments", '{"path": "a"}'),
            attribute("gen_ai.tool.call.result", result),
        ],
    )


def line(trace: str, span: str, parent: str, times: tuple[int, int], attributes: list[Any]) -> Any:
    """A line with one span."""
    begin, end = map(str, times)
    found = {
        "traceId": trace,
        "spanId": span,
        "parentSpanId": parent,
        "startTimeUnixNano": begin,
        "endTimeUnixNano": end,
        "name": "a span",
        "attributes": attributes,
    }
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "other"}, "spans": [found]}]}]}


def stuck_trace(times: int) -> list[Any]:
    """An agent that asks its model, and makes the same call again; then it answers."""
    spans = [one for number in range(1, times + 1) for one in (chat(number), tool(number, "same"))]
    return [*spans, chat(times + 1)]


def test_chat_spans_of_others_are_booked_on_the_calls_that_follow(tmp_path, capfd):
    """The answer wrote no call: it is work."""
    found = spent(tmp_path, capfd, stuck_trace(3))
    assert numbers(found["all"]) == (4, 410, 40)
    assert numbers(found["in_loops"]) == (2, 205, 20)


def test_the_spans_of_a_framework_and_of_its_client_are_one_request(tmp_path, capfd):
    """The inner one is left out, whichever comes first."""
    lines = [chat(1, span="inner", parent="chat1"), *stuck_trace(3)]
    assert numbers(spent(tmp_path, capfd, lines)["all"]) == (4, 410, 40)


def test_requests_after_the_end_are_an_estimate_of_what_is_not_spent(tmp_path, capfd, policy):
    """The third call is refused, the fourth too, and the fifth ends the run: the requests after it were not needed."""
    found = spent(tmp_path, capfd, stuck_trace(8), "--policy", policy)
    assert numbers(found["after_end"]) == (4, 106 + 107 + 108 + 109, 40)
    assert numbers(found["all"]) == (9, 945, 90)
    assert found["all"]["cost"] == pytest.approx((945 * 2 + 90 * 10) / 1e6)
    table = replayed(tmp_path, capfd, stuck_trace(8), "--policy", policy)
    assert "tokens (policy.toml):\n" in table
    assert "after the end under this policy (estimate)  " in table
    assert table.splitlines()[-1].split() != []
    costs = [row.split()[-1] for row in table.splitlines() if row.startswith(("all ", "in loops ", "after the end"))]
    assert costs == ["0.0028", "0.0022", "0.0013"]


def test_requests_without_tokens_are_named_in_a_note(tmp_path, capfd):
    """They count as requests only."""
    table = replayed(tmp_path, capfd, [chat(1, tokens=None), tool(1, "same"), chat(2)])
    assert "tokens: 1 model request without all of its numbers." in table
    assert spent(tmp_path, capfd, [chat(1, tokens=None), tool(1, "same"), chat(2)])["all"]["input"] == 102


def test_without_tokens_there_is_no_table(tmp_path, capfd):
    """A zero would read as if nothing had been spent."""
    assert "tokens" not in replayed(tmp_path, capfd, [tool(1, "same"), tool(2, "same")])
    assert "tokens" not in replayed(tmp_path, capfd, [made.stuck()])


def test_traces_do_not_share_requests(tmp_path, capfd):
    """Each trace is a turn with its own requests; those of a trace without a tool call are no run."""
    lines = [chat(1, trace="only a chat"), *stuck_trace(2), chat(1, trace="u"), tool(1, "same", trace="u")]
    runs = [json.loads(one) for one in replayed(tmp_path, capfd, lines, "--json").splitlines()]
    assert {run["run_id"]: run["spent"]["all"]["requests"] for run in runs} == {"t": 3, "u": 1}


# --- a guarded program -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", [False, True])
@pytest.mark.parametrize("action", ["observe", "nudge", "block"])
def test_a_guarded_program_spends_what_the_replay_of_its_spans_finds(tmp_path, capfd, executor, action):
    """The metrics and the spans have the same tokens in loops, whether executors are guarded or only the client is."""
    steps = (call("read_file", path="a.txt"), (call("read_file", path="b.txt"), call("read_file", path="a.txt")))

    def read_file(path: str) -> str:
        written = next(one["tool_calls"] for one in reversed(agent.messages) if "tool_calls" in one)
        call_id = next(one["id"] for one in written if path in one["function"]["arguments"])
        return str(loopguard.call("read_file", {"path": path}, lambda path: f"file {path}", call_id=call_id))

    with at_once(Policy(action=action)) as recording, Server(Looping(*steps, rounds=8)).running() as server:
        agent = Agent(server, **({"run_tool": read_file} if executor else {}))
        with loopguard.turn():
            agent.ask()
        counted = partial(recording.counted, semconv.METRIC_MODEL_TOKENS)
        of_loops = partial(counted, loopguard__step="loop")
        in_loops = tuple(int(of_loops(loopguard__token__type=kind)) for kind in ("input", "output"))
        requests = int(recording.counted(semconv.METRIC_MODEL_REQUESTS, loopguard__step="loop"))
        lines = one_by_one(MessageToDict(encode_spans(recording.spans))["resourceSpans"])
        sent = len(server.exchanges)
    found = spent(tmp_path, capfd, lines)
    assert numbers(found["in_loops"]) == (requests, *in_loops)
    assert requests > 3
    assert found["all"]["requests"] == sent - 1, "the answer wrote no call"
