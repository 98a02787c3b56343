"""The ledger of a turn equals what the provider has counted, through a client that is patched."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Ledger, Policy, semconv
from otel_loopguard.engine.history.conversation_texts import ConversationTexts
from otel_loopguard.engine.history.history import History
from otel_loopguard.testing import Recording, guarded
from tests.models.scripts import Failing, Looping, Working, call
from tests.models.server import Server

openai = pytest.importorskip("openai")

READS = [call("read_file", path=f"{name}.txt") for name in "abc"]
TOOLS = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}]
PRICES = {"gpt-*": {"input": 2.0, "output": 8.0}}


def agent(server: Server, task: str, *, streams: bool = False, made: Any = openai.OpenAI, **more: Any) -> str:
    """Run an agent by hand until the model answers."""
    with made(base_url=f"{server.url}/v1", api_key="local", max_retries=0) as client:
        messages: list[Any] = [{"role": "user", "content": f"{task}: read the files"}]
        while True:
            options: Any = {"model": "gpt-4.1", "messages": messages, "tools": TOOLS, **more}
            if streams:
                with client.chat.completions.stream(**options) as stream:
                    message = stream.get_final_completion().choices[0].message
            else:
                message = client.chat.completions.create(**options).choices[0].message
            messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
            if not message.tool_calls:
                return message.content or ""
            for one in message.tool_calls:
                text = f"{task} has {json.loads(one.function.arguments)['path']}"
                messages.append({"role": "tool", "tool_call_id": one.id, "content": text})


def counted(server: Server, key: str = "") -> Ledger:
    """The sums of the provider: of all answers, or of one conversation."""
    answers = [one for one in server.exchanges if one.asked is not None and key in ("", one.asked.key)]
    usages = [one.answer["usage"] for one in answers]
    read, written = (sum(one[name] for one in usages) for name in ("prompt_tokens", "completion_tokens"))
    calls = sum(len(one.reply.calls) for one in answers if one.reply)
    return Ledger(len(answers), calls, read, written, cost=pytest.approx((2 * read + 8 * written) / 1e6))


@pytest.mark.parametrize("streams", [False, True])
def test_a_turn_has_what_the_provider_has_counted(*, streams: bool) -> None:
    """Requests, calls, tokens and cost, in the block's turn, at its end and on its span."""
    more = {"stream_options": {"include_usage": True}} if streams else {}
    with guarded(Policy(cost_per_million_tokens=PRICES)) as recording, Server(Working(*READS)).running() as server:
        with loopguard.turn() as turn:
            assert agent(server, "task-1", streams=streams, **more) == "Done."
        ended = loopguard.last_turn()
    assert turn.ledger.timeless == counted(server)
    assert ended is not None
    assert ended.ledger == turn.ledger
    assert spent_on_span(recording) == [(4, turn.ledger.input_tokens, turn.ledger.output_tokens, turn.ledger.cost)]


def test_a_request_that_a_program_sends_again_brings_no_new_calls() -> None:
    """Each fails once, the first one, too; the program tries all of them again."""

    class Again(openai.OpenAI):
        def post(self, *given: Any, **more: Any) -> Any:
            try:
                return super().post(*given, **more)
            except openai.InternalServerError:
                return super().post(*given, **more)

    with guarded() as recording, Server(Failing(Working(*READS))).running() as server, loopguard.turn() as turn:
        agent(server, "task-1", made=Again)
        assert not recording.trips
    assert turn.ledger.timeless == counted(server)._replace(requests=8, unmetered=4, cost=0.0, unpriced=8)


def spent_on_span(recording: Recording) -> list[Any]:
    """Requests, tokens and cost on each span of a turn."""
    names = (semconv.TURN_REQUESTS, semconv.TURN_INPUT_TOKENS, semconv.TURN_OUTPUT_TOKENS, semconv.TURN_COST)
    spans = [span.attributes or {} for span in recording._spans.get_finished_spans()]
    return [tuple(one.get(name) for name in names) for one in spans if semconv.TURN_END in one]


def test_a_stream_without_usage_is_unknown() -> None:
    """The provider does not tell it unless it is asked: nothing is guessed."""
    with guarded(), Server(Working(*READS)).running() as server, loopguard.turn() as turn:
        agent(server, "task-1", streams=True)
    assert turn.ledger.timeless == Ledger(4, 3, unmetered=4, unpriced=4)


def test_a_turn_that_nobody_opens_has_its_ledger_on_its_span() -> None:
    """It is known by its requests alone: the first ones come before its first call."""
    with guarded(Policy(cost_per_million_tokens=PRICES)) as recording, Server(Working(*READS)).running() as server:
        agent(server, "task-1")
        ended = loopguard.last_turn()
        assert ended is not None
        assert ended.ledger.timeless == counted(server)
    assert [one[0] for one in spent_on_span(recording)] == [4]


def test_code_between_the_requests_can_ask_for_their_turn() -> None:
    """Nobody has opened it; it is known by its requests, and over with the answer."""
    seen: list[int | None] = []

    class Asking(str):
        """A task that notes the turn whenever the program writes it into a result."""

        __slots__ = ()

        def __str__(self) -> str:
            turn = loopguard.current_turn()
            seen.append(None if turn is None else turn.ledger.requests)
            return "task-1"

        def __format__(self, _: str) -> str:
            return str(self)

    with guarded(), Server(Working(*READS)).running() as server:
        agent(server, Asking("task-1"))
        assert loopguard.current_turn() is None
    assert [one for one in seen if one] == [1, 2, 3]


def test_an_agent_in_a_tool_counts_for_the_turn_around_it() -> None:
    """A tool that runs a loop of its own over the client is a nested turn."""
    with guarded(Policy(cost_per_million_tokens=PRICES)) as recording, Server(Working(*READS)).running() as server:

        @loopguard.tool
        def run_agent(task: str) -> str:
            return agent(server, task)

        with loopguard.turn() as turn:
            agent(server, "task-1")
            run_agent("task-2")
            run_agent("task-3")
        metrics = (semconv.METRIC_TURN_TOKENS, semconv.METRIC_TURN_COST, semconv.METRIC_TURN_CHILDREN)
        measured = [(point.count, point.sum) for name in metrics for point in recording.points(name)]
    assert turn.ledger.timeless == counted(server)._replace(calls=9 + 2, children=2, depth=1)
    assert measured == [(1, turn.ledger.tokens), (1, turn.ledger.cost), (1, 2)]


def test_turns_in_64_threads_have_their_own() -> None:
    """No request of another conversation is in a turn's ledger."""

    def one(number: int) -> tuple[str, Ledger]:
        with loopguard.turn() as turn:
            agent(server, f"task-{number}")
        return f"task-{number}", turn.ledger.timeless

    prices = Policy(cost_per_million_tokens=PRICES)
    with guarded(prices), Server(Working(*READS)).running() as server, ThreadPoolExecutor(64) as pool:
        ledgers = list(pool.map(one, range(64)))
    assert ledgers == [(task, counted(server, task)) for task, _ in ledgers]
    assert server.rejected == []


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Ledger, "plus"), (History, "spend"), (ConversationTexts, "hear"), (Ledger, "around")],
    ids=["sum", "account", "texts", "nested"],
)
def test_a_fault_in_the_ledger_or_the_texts_loses_no_trip(
    owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stuck agent is told, asked for its answer and counted as without the fault, in a turn or nested in one."""

    def trips() -> list[tuple[str, str]]:
        with guarded() as recording, Server(Looping(READS[0], rounds=30)).running() as server, loopguard.turn():
            answers = [
                agent(server, "task-1"),
                loopguard.call("ask", {"who": "b"}, lambda who: agent(server, "task-2")),
            ]
            assert answers == ["I looked."] * 2
        return [(str(trip.mode), str(trip.action)) for trip in recording.trips]

    expected = trips()
    monkeypatch.setattr(owner, name, lambda *_, **__: 1 / 0)
    assert trips() == expected != []
