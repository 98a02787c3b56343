"""The texts of recorded requests are judged as those of a live program; the spans of one request count once.

``tests/spans/requests`` has what openinference-instrumentation-openai 0.1.66, -langchain 0.1.80 and
opentelemetry-instrumentation-openai and -langchain 0.62.4 write of two agents, without attributes that are not read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_loopguard import Policy, semconv
from otel_loopguard.cli.main import main
from otel_loopguard.cli.replay.recorded_texts import AskedTrip, text_rows
from otel_loopguard.engine.vocabulary import Action, Trip
from otel_loopguard.testing import guarded
from tests.models.scripts import Working
from tests.models.server import Server
from tests.models.test_ledger import TOOLS

from .test_replayed_ledgers import judged
from .test_token_sums import attribute, line, tool

RECORDED = Path(__file__).parents[2] / "spans" / "requests"
ANSWER = "I have run the tests, and everything is done as you asked me to."
HOOK = "The tests still fail, go on."


def recorded(name: str) -> list[Any]:
    return [json.loads(one) for one in (RECORDED / name).read_text().splitlines()]


def live() -> int:
    """Run the recorded program under the guard, which reads requests with tools. Return how often the model is told."""
    openai = pytest.importorskip("openai")
    with guarded(Policy()) as recording, Server(Working(answer=ANSWER)).running() as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0)
        messages: list[Any] = [{"role": "system", "content": "Be good."}, {"role": "user", "content": "task-1: do it"}]
        for _ in range(6):
            reply = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=TOOLS).choices[0].message
            messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": HOOK}]
    assert recording.counted(semconv.METRIC_TRIPS) == recording.counted(semconv.METRIC_TRIPS, loopguard__action="nudge")
    return int(recording.counted(semconv.METRIC_TRIPS, loopguard__mode="text_repeat"))


@pytest.mark.parametrize("name", ["openinference.jsonl", "openllmetry.jsonl"])
def test_the_same_answer_again_is_found_as_in_the_program(name: str) -> None:
    """In the dialects of others; the turn has no call at all."""
    (turn,) = judged(recorded(name), Policy()).values()
    found = [(trip.mode, str(trip.action), trip.count) for trip in turn.trips[0]]
    assert found == [("text_repeat", "nudge", 3)] * live()
    assert turn.guarded[0].rows == ["text_repeat: told at request 5 of 6"]


@pytest.mark.parametrize("name", ["openinference-langchain-openai.jsonl", "openllmetry-langchain-openai.jsonl"])
def test_a_request_of_a_framework_and_of_its_client_counts_once(name: str) -> None:
    """Also if the client's span begins a trace of its own."""
    (turn,) = judged(recorded(name), Policy()).values()
    assert turn.ledger
    assert (turn.ledger.requests, turn.ledger.calls, turn.ledger.tokens) == (3, 2, 70)


def asked(number: int, texts: list[tuple[str, str]], *, trace: str = "t", **more: Any) -> Any:
    """A model request by the conventions, with messages: roles and texts."""
    messages = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in texts]
    return line(
        trace,
        f"chat{number}",
        "",
        (number * 10**9, number * 10**9 + 10**8),
        [
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.input.messages", json.dumps(messages)),
            *(attribute(name, value) for name, value in more.items()),
        ],
    )


def hooked(rounds: int, answer: str = ANSWER, hook: str = HOOK) -> list[Any]:
    """The requests of a stop hook that is never satisfied, each in a trace of its own."""
    texts = [("user", "do it")]
    spans = []
    for number in range(1, rounds + 1):
        spans.append(asked(number, [*texts], trace=f"trace {number:02}"))
        texts += [("assistant", answer), ("user", hook)]
    return spans


def test_a_conversation_goes_on_over_traces() -> None:
    """A request continues the list that it begins with. The fifth answer ends the run, at each request from then on."""
    turns = judged(hooked(8), Policy())
    found = [(name, str(trip.action)) for name, turn in turns.items() for trip in turn.trips[0]]
    assert found == [("trace 05", "nudge"), ("trace 07", "abort"), ("trace 08", "abort")]


def test_work_is_no_loop_of_words() -> None:
    """New results come in between: nothing is reported, and no run is made of requests without a loop."""
    texts: list[tuple[str, str]] = [("user", "do it")]
    spans = []
    for number in range(1, 9):
        spans.append(asked(number, [*texts]))
        texts += [("assistant", ANSWER), ("tool", f"result {number}")]
    assert judged(spans, Policy()) == {}


def test_a_history_that_is_replaced_again_and_again_is_found() -> None:
    """Whatever is in the summary: the same file is read, and nothing is new."""
    texts: list[tuple[str, str]] = [("system", "Be good."), ("user", "do it")]
    spans, number = [], 0
    for lap in range(6):
        texts = [texts[0], ("user", f"Summary {'x' * lap}: the file was read.")]
        for _ in range(4):
            number += 1
            spans.append(asked(number, [*texts]))
            texts += [("assistant", ""), ("tool", "the text of the file")]
    (turn,) = judged(spans, Policy()).values()
    assert [(trip.mode, str(trip.action)) for trip in turn.trips[0]] == [
        ("context_loop", "nudge"),
        ("context_loop", "conclude"),
    ]


def test_no_text_is_in_the_output(tmp_path: Path, capfd: Any) -> None:
    """It is of use as a hash only. A trip of a request has no tool."""
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in [*hooked(8, hook="SECRET", answer=f"SECRET {ANSWER}")]))
    assert main(["replay", str(path), "--fail-on", "abort", "--html", str(tmp_path / "report.html")]) == 1
    out = capfd.readouterr().out + (tmp_path / "report.html").read_text()
    assert "trace 07: text_repeat: run ended at request 1 of 1" in out
    assert "(model request)" in out
    assert "SECRET" not in out


@pytest.mark.parametrize("messages", ["[", "{}", "[1, null]", '"text"', '[{"role": 3, "parts": 4}]'])
def test_messages_that_are_none_are_not_judged(messages: str) -> None:
    """A span of another program may have anything there."""
    spans = [asked(number, [], **{"gen_ai.input.messages": messages}) for number in range(9)]
    spans = [*spans, tool(3, "x")]
    (turn,) = judged(spans, Policy()).values()
    assert (turn.calls, turn.trips) == (1, ([],))


def test_a_row_has_the_first_request_of_each_action() -> None:
    """In the order of the actions."""
    found = [
        AskedTrip(number, None, Trip("text_repeat", "", 3, 3, action, action))  # type: ignore[arg-type]  # not asked
        for number, action in ((3, Action.NUDGE), (4, Action.NUDGE), (6, Action.ABORT))
    ]
    assert list(text_rows(found, 9)) == ["text_repeat: told at request 3, run ended at request 6 of 9"]
