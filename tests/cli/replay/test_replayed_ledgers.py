"""A replay of a program's own spans has its ledgers and budgets; of others, what their spans tell."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import otel_loopguard as loopguard
from otel_loopguard import Ledger, Policy, RunStopped, semconv
from otel_loopguard.cli.main import main
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.replay.span_buffer import JudgedTurn, SpanBuffer
from otel_loopguard.spans import otlp
from otel_loopguard.testing import Recording, guarded
from tests.models.scripts import Looping, Working, call
from tests.models.server import Server
from tests.models.test_ledger import PRICES, agent

from .test_span_buffer import one_by_one
from .test_token_sums import attribute, chat, line, tool

READS = [call("read_file", path=f"{name}.txt") for name in "abcdefgh"]


def lines_of(recording: Recording) -> list[Any]:
    """The spans of a program, a line for each."""
    return one_by_one(MessageToDict(encode_spans(recording._spans.get_finished_spans()))["resourceSpans"])


def judged(lines: list[Any], policy: Policy, **window: int) -> dict[str, JudgedTurn]:
    """Replay lines; return the last part of each turn."""
    held = SpanBuffer([PolicyJudge(policy)], **window)
    turns: list[JudgedTurn] = []
    for span in (span for one in lines for span in otlp.spans_of(one, held.ancestry)):
        if isinstance(span, otlp.ModelSpan):
            held.add_request(span)
        else:
            turns += held.add(span)
    return {turn.run_id: turn for turn in [*turns, *held.rest()]}


def program(policy: Policy) -> tuple[Recording, Ledger]:
    """Run an agent that reads files, and asks two agents in between: its spans, and its ledger."""
    with guarded(policy) as recording, Server(Working(*READS)).running() as server:

        @loopguard.tool
        def ask_agent(task: str) -> str:
            return agent(server, task)

        with suppress(RunStopped), loopguard.turn() as turn:
            ask_agent("task-1")
            agent(server, "task-2")
            ask_agent("task-3")
    return recording, turn.ledger


def test_a_replay_has_the_ledger_of_the_program() -> None:
    """With the nested turns, the answers, which wrote no call, and the cost; whichever order the spans come in."""
    recording, ledger = program(Policy(cost_per_million_tokens=PRICES))
    assert (ledger.requests, ledger.calls, ledger.children) == (27, 26, 2)
    for lines in (lines_of(recording), lines_of(recording)[::-1]):
        turns = judged(lines, Policy(cost_per_million_tokens=PRICES))
        (outermost,) = [turn for turn in turns.values() if not turn.is_nested]
        assert outermost.ledger == ledger
        assert [turn.ledger.calls for turn in turns.values() if turn.is_nested and turn.ledger] == [8, 8]


NESTED_ENDS = [(4, "nudge"), (5, "conclude")]


@pytest.mark.parametrize(
    ("budget", "nested", "outermost"),
    [
        ({"turn": {"requests": 6}}, NESTED_ENDS, [(5, "nudge"), (6, "conclude")]),
        ({"turn": {"tokens": 240}}, NESTED_ENDS, [(5, "nudge"), (6, "conclude")]),
        ({"turn": {"cost": 0.0007}}, NESTED_ENDS, [(5, "nudge"), (6, "conclude")]),
        ({"tree": {"calls": 15}}, [], [(3, "nudge"), (7, "conclude")]),
        ({"tree": {"children": 1}}, [], [(9, "block")]),
        ({"tree": {"depth": 0}}, [], [(0, "block"), (9, "block")]),
    ],
    ids=str,
)
def test_a_budget_is_judged_as_in_the_program(budget: dict[str, Any], nested: Any, outermost: Any) -> None:
    """The replay of a program without a budget names the calls at which it acts: the actions are those of the guard."""
    policy = Policy(cost_per_million_tokens=PRICES, budget=budget)
    recording, _ = program(Policy())
    turns = judged(lines_of(recording), policy)
    assert [acts(turn) for turn in turns.values()] == [nested, nested, outermost]
    live, _ = program(policy)
    actions = [action for _, action in nested or outermost]
    assert [trip.action for trip in live.trips][: len(actions)] == actions


def acts(turn: JudgedTurn) -> list[tuple[int, str]]:
    """The calls at which a budget acts, until the guarded turn ends."""
    assert {trip.mode for trip in turn.trips[0]} <= {"run_budget"}
    return [(trip.call, str(trip.action)) for trip in turn.trips[0] if not trip.is_after]


def nested_trace() -> list[Any]:
    """Spans of others: an agent asks its model, and calls a tool that runs two more, one inside the other."""

    def agent_span(span: str, parent: str, begin: int, end: int) -> Any:
        return line(
            "t", span, parent, (begin * 10**9, end * 10**9), [attribute("gen_ai.operation.name", "invoke_agent")]
        )

    def delegate(span: str, parent: str, begin: int, end: int) -> Any:
        attributes = [
            attribute("gen_ai.operation.name", "execute_tool"),
            attribute("gen_ai.tool.name", "delegate"),
            attribute("gen_ai.tool.call.arguments", json.dumps({"task": span})),
            attribute("gen_ai.tool.call.result", span),
        ]
        return line("t", span, parent, (begin * 10**9, end * 10**9), attributes)

    return [
        chat(1, parent="outer"),
        agent_span("outer", "", 0, 60),
        delegate("call", "outer", 2, 30),
        agent_span("middle", "call", 3, 29),
        chat(4, parent="middle"),
        delegate("deeper", "middle", 5, 20),
        agent_span("inner", "deeper", 6, 19),
        chat(7, parent="inner"),
        chat(21, parent="middle"),
        chat(31, parent="outer"),
        delegate("again", "outer", 32, 33),
    ]


def test_spans_of_others_tell_their_trees() -> None:
    """An agent's span inside a tool call is a nested turn."""
    turns = judged(nested_trace(), Policy())
    assert [turn.is_nested for turn in turns.values()] == [True, True, False]
    inner, middle, outer = [turn.ledger.timeless for turn in turns.values() if turn.ledger]
    assert inner == Ledger(1, 0, 107, 10, unpriced=1)
    assert middle == Ledger(3, 1, 104 + 121 + 107, 30, unpriced=3, children=1, depth=1)
    assert outer == Ledger(5, 3, 101 + 131 + 332, 50, unpriced=5, children=2, depth=2)


@pytest.mark.parametrize(
    ("budget", "acts_at"),
    [
        ({"tree": {"children": 2}}, {"outer": [(1, "block")]}),
        ({"tree": {"children": 3}}, {}),
        ({"tree": {"requests": 5}}, {"outer": [(0, "nudge"), (1, "conclude")]}),
    ],
    ids=str,
)
def test_agents_of_others_are_counted_where_they_begin(budget: dict[str, Any], acts_at: Any) -> None:
    """The tool is known to start agents since it has started one."""
    turns = judged(nested_trace(), Policy(budget=budget))
    assert {name.rpartition(":")[2]: acts(turn) for name, turn in turns.items() if acts(turn)} == acts_at


@pytest.mark.parametrize("value", [-1, "many", 10**30], ids=str)
def test_tokens_that_are_none_are_unknown(value: Any) -> None:
    """Of any span: a request is counted without them, and no budget of tokens counts them."""
    lines = [chat(1), tool(1, "x"), chat(2), tool(2, "y")]
    for one in lines[::2]:
        attributes = one["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
        attributes[:] = [each for each in attributes if each["key"] != "gen_ai.usage.input_tokens"]
        attributes.append(attribute("gen_ai.usage.input_tokens", value))
    (turn,) = judged(lines, Policy(budget={"turn": {"tokens": 10_000}})).values()
    assert turn.ledger.timeless == Ledger(2, 2, 0, 20, unmetered=2, unpriced=2)
    assert turn.trips == ([],)


def without_ledger(recording: Recording) -> list[Any]:
    """The spans of a program, in which those of the turns have no ledger that can be read."""
    lines = lines_of(recording)
    for one in lines:
        for each in one["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]:
            if each["key"] == semconv.TURN_REQUESTS:
                each["value"] = {"stringValue": "27"}
    return lines


def test_without_a_ledger_the_calls_tell_what_they_know() -> None:
    """The requests that wrote no call are missing."""
    recording, ledger = program(Policy())
    turns = judged(without_ledger(recording), Policy()).values()
    (outermost,) = [turn.ledger for turn in turns if turn.ledger and not turn.is_nested]
    assert (outermost.requests, outermost.calls, outermost.children) == (24, 26, 2)
    assert outermost.input_tokens < ledger.input_tokens


def test_loops_are_counted_as_in_the_program() -> None:
    """Calls that were refused or ran in vain, and the tokens of the requests that wrote no others."""
    with guarded(Policy()) as recording, Server(Looping(READS[0])).running() as server:

        @loopguard.tool
        def ask_agent(task: str) -> str:
            return agent(server, task)

        with suppress(RunStopped), loopguard.turn() as turn:
            ask_agent("task-1")
    assert turn.ledger.loop_calls > 5
    turns = judged(without_ledger(recording), Policy()).values()
    found = [(one.ledger.loop_calls, one.ledger.loop_tokens) for one in turns if one.ledger]
    assert found == [(turn.ledger.loop_calls, turn.ledger.loop_tokens)] * 2


def test_the_tables_have_what_turns_spent_and_what_budgets_do(tmp_path: Any, capfd: Any) -> None:
    """A run that a budget stops is no looping one. With ``--json`` each line has the ledger of its turn."""
    recording, ledger = program(Policy(cost_per_million_tokens=PRICES))
    spans, policy = tmp_path / "spans.jsonl", tmp_path / "policy.toml"
    spans.write_text("".join(f"{json.dumps(one)}\n" for one in lines_of(recording)))
    policy.write_text('currency = "EUR"\nbudget.turn.requests = 6')
    main(["replay", str(spans), "--policy", str(policy)])
    out = capfd.readouterr().out
    assert f"\nspent: 27 requests, 26 calls, {ledger.tokens:,} tokens, 0.0047 EUR, 2 agents\n" in out
    rows = [row.strip().partition(": ")[2] for row in out.partition("budgets, and what")[2].splitlines()[1:4]]
    at_six = "budget turn.requests: told at call 5, tools withdrawn at call 6 of 8"
    at_seven = "budget turn.requests: told at call 6, tools withdrawn at call 7 of 10"
    assert rows == [at_six, at_six, at_seven]
    assert "loops, and what" not in out
    main(["replay", str(spans), "--policy", str(policy), "--json"])
    lines = [json.loads(one)["ledger"] for one in capfd.readouterr().out.splitlines()]
    assert [one["calls"] for one in lines] == [8, 8, 26]
    assert (lines[-1]["requests"], lines[-1]["children"]) == (27, 2)


def test_several_turns_are_listed_the_most_expensive_first(tmp_path: Any, capfd: Any) -> None:
    """A nested turn is a part of the one around it."""
    traces = [
        [*nested_trace()],
        [chat(1, trace="small", tokens=3), tool(1, "x", trace="small")],
        [chat(1, trace="large", tokens=9_000), tool(1, "x", trace="large")],
    ]
    spans = tmp_path / "spans.jsonl"
    spans.write_text("".join(f"{json.dumps(one)}\n" for lines in traces for one in lines))
    main(["replay", str(spans)])
    table = capfd.readouterr().out.partition("turns, the most expensive first")[2].splitlines()
    assert table[0].split() == ["requests", "calls", "tokens", "agents"]
    assert [row.split() for row in table[2:5]] == [
        ["large", "1", "1", "9011", "0"],
        ["t:outer", "5", "3", "614", "2"],
        ["small", "1", "1", "14", "0"],
    ]
