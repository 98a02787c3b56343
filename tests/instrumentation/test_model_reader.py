"""Programs over a model client that nothing else guards: the reader of their requests sees and ends their loops.

The client is OpenAI's, the server is a local one that refuses conversations which are not well-formed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import openai
import pytest

import otel_loopguard as loopguard
from otel_loopguard import Action, Policy, ToolLoopError, semconv
from otel_loopguard.guard.turn import Turn
from otel_loopguard.instrumentation.model_api import JUDGED, Sent, may_be_proxy
from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.instrumentation.models.openai_responses import RESPONSES
from otel_loopguard.instrumentation.runtime import Runtime
from otel_loopguard.testing import guarded
from otel_loopguard.turns.message_lists import latest
from otel_loopguard.turns.messages import Reply, WrittenCall
from tests.models.conversation import Call
from tests.models.scripts import Looping, Obedient, Slow, Working, call, written
from tests.models.server import Server
from tests.models.wire import CHAT as WIRE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_loopguard.testing import Recording
    from tests.models.conversation import Asked
    from tests.models.conversation import Reply as ModelReply

FILES = {f"{name}.txt": f"This is file {name}." for name in "abcdefgh"}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"path": {}}}}}
    for name in ("read_file", "search")
]
READ = call("read_file", path="a.txt")
QUESTION = "task-1: what is in it?"
MANY = 16
"""LastTurns that are held at once."""


at_once = partial(guarded, clock=lambda: 0.0)
"""The guard on a clock that does not move: no call has waited, however slow the machine is."""


def read_file(path: str = "") -> str:
    """A tool."""
    return FILES.get(path, "nothing")


CLIENTS: list[openai.OpenAI] = []


@pytest.fixture(autouse=True)
def close_clients() -> Iterator[None]:
    """Close the clients of a test's agents: a socket that is only collected is a warning in another test."""
    yield
    while CLIENTS:
        CLIENTS.pop().close()


class Agent:
    """A loop over ``openai``, as it is written by hand."""

    def __init__(self, server: Server, *, run_tool: Callable[..., str] = read_file, keep: int | None = None) -> None:
        self.client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0)
        CLIENTS.append(self.client)
        self.run_tool = run_tool
        self.keep = keep
        self.runs = 0
        self.messages: list[Any] = []

    def ask(self, question: str = QUESTION, tools: list[Any] = TOOLS) -> str:
        """Ask until the model answers."""
        self.messages.append({"role": "user", "content": question})
        return self.go_on(tools)

    def go_on(self, tools: list[Any] = TOOLS) -> str:
        """Send the messages until the model answers."""
        while True:
            sent = self.messages if self.keep is None else [self.messages[0], *self.messages[1:][-self.keep :]]
            message = (
                self.client.chat.completions.create(model="gpt-4.1", messages=sent, tools=tools).choices[0].message
            )
            self.messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return message.content or ""
            for one in message.tool_calls:
                self.runs += 1
                result = self.run_tool(**json.loads(one.function.arguments))
                self.messages.append({"role": "tool", "tool_call_id": one.id, "content": result})


class Told:
    """A model that calls once a conversation and thinks for 40 seconds, and what each turn is told."""

    def __init__(self) -> None:
        self.model = Slow(Working(READ))
        self.seconds: list[tuple[str, float]] = []
        self.guarded = partial(guarded, clock=self.model.clock)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Note the id of the turn, and the seconds."""
    told = Told()
    monkeypatch.setattr(Turn, "thought", lambda turn, seconds: told.seconds.append((turn.id, seconds)))
    return told


def sentences(server: Server) -> list[str]:
    """The sentences of the guard in the last request."""
    last = server.exchanges[-1].asked
    assert last is not None
    return [result.text.partition("[loopguard]")[2] for result in last.results if "[loopguard]" in result.text]


# --- the ladder --------------------------------------------------------------------------------------------------


class Ran(NamedTuple):
    """A run over a looping model."""

    agent: Agent
    server: Server
    recording: Recording
    log: list[str]
    error: str
    """The words of the exception that ended the run; empty if it ended with an answer."""


def ran(script: Looping, **options: Any) -> Ran:
    """Ask a model, and keep what is said about it."""
    log: list[str] = []
    handler, logger, error = logging.Handler(), logging.getLogger("otel_loopguard"), ""
    handler.emit = lambda record: log.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        with at_once(**options) as recording, Server(script).running() as server:
            agent = Agent(server)
            try:
                assert agent.ask() == "I looked."
            except ToolLoopError as ended:
                error = str(ended)
    finally:
        logger.removeHandler(handler)
    return Ran(agent, server, recording, log, error)


@pytest.fixture(scope="module")
def obeyed() -> Ran:
    """A run whose model answers once its tools are withdrawn."""
    return ran(Looping(READ))


@pytest.fixture(scope="module")
def ended() -> Ran:
    """A run whose model calls all the same."""
    return ran(Looping(READ, stubborn=True))


def test_a_looping_run_ends_with_the_answer_of_the_model(obeyed: Ran) -> None:
    """The model is told, then asked for an answer without tools; nothing is rejected by the server."""
    assert (obeyed.error, obeyed.server.rejected) == ("", [])
    assert len(obeyed.server.exchanges) == 10
    assert obeyed.agent.runs == 9
    assert obeyed.server.exchanges[-1].json["tool_choice"] == "none"
    assert obeyed.server.exchanges[-1].json["tools"] == TOOLS
    assert [trip.action for trip in obeyed.recording.trips] == [*["nudge"] * 7, "conclude"]
    sources = [span.attributes[semconv.TURN_SOURCE] for span in obeyed.recording.spans if span.attributes]
    assert sources == ["messages"] * 9


def test_a_model_that_calls_all_the_same_is_ended() -> None:
    """``ToolLoopError`` leaves the client's method, each time that the program tries again."""
    with at_once(), Server(Looping(READ, stubborn=True)).running() as server:
        agent = Agent(server)
        with pytest.raises(ToolLoopError, match="read_file"):
            agent.ask()
        for _ in range(3):
            with pytest.raises(ToolLoopError):
                agent.go_on()
    assert len(server.exchanges) == 10


@pytest.mark.parametrize(("run", "calls", "done"), [("obeyed", 9, ""), ("ended", 10, ", 1 run ended")])
def test_the_line_at_exit_says_what_was_done_about_a_loop(
    run: str, calls: int, done: str, request: pytest.FixtureRequest
) -> None:
    """No call is refused at the model's side: it is told, and asked for an answer, and the run ends in the error."""
    runtime = request.getfixturevalue(run).recording.runtime
    line = runtime.providers.summary.line()
    assert line == f"otel_loopguard: {calls} tool calls, 1 loop, 8 nudges, 1 turn asked for an answer{done}."


def test_the_error_at_a_request_names_no_refusal(ended: Ran) -> None:
    """Each call has run, so it tells the attempts alone."""
    assert ended.error.endswith("generic_repeat: 10 attempts). The run was ended.")


def test_the_log_says_that_calls_have_run(ended: Ran) -> None:
    """No call is refused at the model's side: the log names the request without tools, and the end of the run."""
    concluded, last = ended.log
    withdrew = "Withdrew the tools after 7 calls in a loop (conclude_after 7), so that the model answers"
    assert concluded.startswith(
        f"{withdrew}, at read_file: same call, same result, for the 9th time (generic_repeat, limit 3) [call="
    )
    assert last.startswith("Ended the run after its tools were withdrawn, at read_file")
    assert "for the 10th time (generic_repeat, limit 3)" in last
    assert "refused" not in re.sub(r"https://\S+", "", concluded + last).lower()


def test_the_programs_own_messages_are_not_changed(obeyed: Ran) -> None:
    """Sentences are in copies, the same ones in each later request."""
    assert "[loopguard]" not in json.dumps(obeyed.agent.messages)
    requests = [one.asked for one in obeyed.server.exchanges if one.asked is not None]
    for before, after in itertools.pairwise(requests):
        assert after.messages[: len(before.messages)] == before.messages


def test_tokens_are_booked_as_loop_or_work(obeyed: Ran) -> None:
    """The first request and the answer are work; the others repeated a call in vain."""
    counted = obeyed.recording.counted
    steps = [counted(semconv.METRIC_MODEL_REQUESTS, loopguard__step=one) for one in ("work", "loop")]
    assert (steps, counted(semconv.METRIC_MODEL_REQUESTS)) == ([2, 8], 10)
    assert counted(semconv.METRIC_MODEL_TOKENS) > 0


def test_the_tokens_of_the_conventions_are_those_that_the_provider_has_counted(obeyed: Ran) -> None:
    """Each request counts once, whether it was a step of a loop or work."""
    used = [one.answer["usage"] for one in obeyed.server.exchanges]
    labels = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4.1",
        "gen_ai.token.modality": "unknown",
    }
    counted = {
        semconv.METRIC_INPUT_TOKENS: sum(one["prompt_tokens"] for one in used),
        semconv.METRIC_OUTPUT_TOKENS: sum(one["completion_tokens"] for one in used),
        semconv.METRIC_CACHE_READ_TOKENS: 0,
    }
    for metric, tokens in counted.items():
        (point,) = obeyed.recording.points(metric)
        assert (point.value, dict(point.attributes)) == (tokens, labels)


@pytest.mark.parametrize(("scope", "is_measured"), [("other", False), ("com.anthropic.sdk.python", True)])
def test_spans_of_another_instrumentation_stop_the_metrics(scope: str, *, is_measured: bool) -> None:
    """It has metrics of its own; Anthropic's client makes spans alone, around each request."""
    with at_once() as recording, Server(Working(READ)).running() as server:
        tracer = recording.tracer_provider.get_tracer(scope)
        for _ in range(2):
            with tracer.start_as_current_span("chat", attributes={semconv.OPERATION_NAME: semconv.OPERATION_CHAT}):
                Agent(server).ask()
        assert bool(list(recording.points(semconv.METRIC_INPUT_TOKENS))) is is_measured


def test_the_log_of_an_observed_run_names_what_the_guard_can_do() -> None:
    """A call whose result is read in a request is never refused: the model is told, then asked for an answer."""
    log = "\n".join(ran(Looping(READ, rounds=5), policy=Policy(action="observe")).log)
    assert "block would tell the model, then ask it for an answer without tools" in log
    assert "refuse" not in log


def test_the_log_names_the_conclusion_of_an_executors_calls_when_it_comes(caplog: pytest.LogCaptureFixture) -> None:
    """The line is of the request that is sent, not of the call after which it is due. It has the limit that decided."""

    @loopguard.tool(name="read_file")
    def run(path: str) -> str:
        return read_file(path)

    with (
        caplog.at_level("WARNING", "otel_loopguard"),
        at_once(),
        Server(Looping(READ)).running() as server,
        loopguard.turn(),
    ):
        Agent(server, run_tool=run).ask()
    refused, concluded = [record.getMessage() for record in caplog.records if record.name == "otel_loopguard"]
    assert refused.startswith("Refused read_file")
    told = "Withdrew the tools after 7 refusals (conclude_after 7), so that the model answers [trace="
    assert concluded.startswith(told)


def test_an_ended_conversation_answers_the_next_question() -> None:
    """The error ends the turn, not the conversation."""
    with at_once(), Server(Looping(READ, stubborn=True, rounds=12)).running() as server:
        agent = Agent(server)
        with pytest.raises(ToolLoopError):
            agent.ask()
        assert agent.ask("thank you") == "I looked."
    assert server.rejected == []


def test_a_model_that_reads_the_sentence_stops() -> None:
    """The sentence is in the second equal result."""
    with at_once(), Server(Obedient(Looping(READ))).running() as server:
        agent = Agent(server)
        assert agent.ask() == "I stop here."
    assert agent.runs == 2
    assert len(sentences(server)) == 1


@pytest.mark.parametrize("action", [Action.OBSERVE, Action.NUDGE])
def test_a_lower_action_ends_nothing(action: Action) -> None:
    """The loop runs to the end of its script; under ``observe`` no request is changed."""
    with at_once(Policy(action=action)) as recording, Server(Looping(READ, rounds=20)).running() as server:
        assert Agent(server).ask() == "I looked."
    assert len(server.exchanges) == 21
    assert {trip.action for trip in recording.trips} == {str(action)}
    assert bool(sentences(server)) is (action is Action.NUDGE)
    assert "tool_choice" not in server.exchanges[-1].json


def test_a_request_without_tools_is_not_concluded() -> None:
    """``tool_choice`` without tools is an error."""
    with at_once(), Server(Looping(READ)).running() as server:
        agent = Agent(server)
        agent.ask()
        agent.messages.append({"role": "user", "content": "thanks"})
        agent.client.chat.completions.create(model="gpt-4.1", messages=agent.messages)
    assert server.rejected == []


# --- turns -------------------------------------------------------------------------------------------------------


def test_a_second_question_begins_a_turn() -> None:
    """The same call is a first run again."""

    def script(asked: Asked) -> ModelReply:
        return Looping(READ)(asked) if asked.number % 2 else Working()(asked)

    with at_once() as recording, Server(script).running() as server:
        agent = Agent(server)
        for _ in range(12):
            agent.ask()
    assert recording.outcomes == ["executed"] * 12
    assert len({span.attributes[semconv.TURN_ID] for span in recording.spans if span.attributes}) == 12


def test_a_conversation_that_the_provider_keeps_is_found_by_its_id() -> None:
    """Each request has the outputs alone; other conversations have equal ids of calls."""
    runtime = Runtime()
    tools = [{"type": "function", "name": "read_file"}]
    lists = []
    for step in range(3):
        for name in ("conv_a", "conv_b"):
            latest.set(None)
            output = {"type": "function_call_output", "call_id": f"call_{step - 1}", "output": "text"}
            item = output if step else {"role": "user", "content": "what is in it?"}
            body = {"conversation": name, "input": [item], "tools": tools}
            exchange = runtime.reader.open(Sent(RESPONSES, body, "m", lambda changed: ((), {}), lambda reply, _: reply))
            exchange.judge_calls()
            exchange._learn(Reply((WrittenCall(f"call_{step}", "read_file", {"path": "a.txt"}),)))
            lists.append(exchange._list)
    assert lists[0] is lists[2] is lists[4]
    assert lists[1] is lists[3] is lists[5]
    turns = [one.turn for one in lists[:2] if one is not None and one.turn is not None]
    assert [turn.calls for turn in turns] == [2, 2]


def test_a_sentence_without_a_place_is_not_called_delivered() -> None:
    """The output of a computer call takes no text: the call is not nudged, and the sentence waits for the next text."""
    computer = [{"type": "computer_call_output", "call_id": "1", "output": {"type": "computer_screenshot"}}]
    with at_once() as recording:
        assert recording.runtime is not None
        for step in range(3):
            latest.set(None)
            body = {"conversation": "c", "input": computer if step else "look", "tools": [{"type": "computer_use"}]}
            sent = Sent(RESPONSES, body, "m", lambda changed: ((), {}), lambda reply, _: reply)
            exchange = recording.runtime.reader.open(sent)
            exchange.judge_calls()
            exchange.prepare(lambda: ToolLoopError, (), {})
            exchange._learn(Reply((WrittenCall("1", "computer", {"action": "screenshot"}),)))
    assert recording.outcomes == ["executed", "executed"]
    assert [trip.action for trip in recording.trips] == ["nudge"]
    assert [bool((span.attributes or {}).get(semconv.UNDELIVERED)) for span in recording.spans] == [False, True]


def test_a_request_without_messages_is_no_fault() -> None:
    """Some programs send it, and the provider refuses it."""
    with at_once() as recording:
        assert recording.runtime is not None
        for _ in range(3):
            body = {"messages": [], "tools": TOOLS}
            recording.runtime.reader.open(
                Sent(CHAT, body, "m", lambda _: ((), {}), lambda reply, _: reply)
            ).judge_calls()
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_a_program_that_rejects_the_answer_is_ended() -> None:
    """It asks for a call again and again, in the role of the user."""
    with at_once(), Server(Looping(READ)).running() as server:
        agent = Agent(server)

        def insist() -> None:
            for _ in range(100):
                agent.ask("There is no call in your answer. Each answer must have a call.")

        with pytest.raises(ToolLoopError):
            insist()
    assert len(server.exchanges) <= 15


def loops_until_ended(server: Server, question: str = QUESTION) -> int:
    """Begin a conversation anew, as a retry of the program does. Return the number of its requests until its end."""
    before = len(server.exchanges)
    with pytest.raises(ToolLoopError):
        Agent(server).ask(question)
    return len(server.exchanges) - before


def test_a_retry_of_an_ended_conversation_is_ended_after_three_calls() -> None:
    """The program catches the error and sends the same messages; after ten minutes that is a new question."""
    now = [0.0]
    with guarded(clock=lambda: now[0]), Server(Looping(READ, stubborn=True, rounds=400)).running() as server:
        requests = [loops_until_ended(server) for _ in range(5)]
        other = loops_until_ended(server, "task-2: and in the other one?")
        now[0] = 601.0
        later = loops_until_ended(server)
    assert requests == [10, 5, 5, 5, 5]
    assert (other, later) == (10, 10)


def test_a_conversation_that_works_is_not_touched_by_an_equal_one_that_was_ended() -> None:
    """It begins with the same messages, and does what it has to."""
    with at_once() as recording, Server(Looping(READ, stubborn=True, rounds=400)).running() as server:
        loops_until_ended(server)
        counted = len(recording.trips)
        with Server(Working(*(call("read_file", path=path) for path in FILES))).running() as working:
            assert Agent(working).ask() == "Done."
    assert len(recording.trips) == counted


def test_a_turn_after_a_concluded_one_is_concluded_if_nothing_may_be_ended() -> None:
    """``abort_after = 0`` holds for it, too."""
    with guarded(Policy(abort_after=0), clock=lambda: 0.0) as recording, Server(Looping(READ)).running() as server:
        agent = Agent(server)
        assert {agent.ask("There is no call in your answer. Each answer must have a call.") for _ in range(3)} == {
            "I looked."
        }
    assert [trip.action for trip in recording.trips].count("conclude") == 3


@pytest.mark.parametrize("same_question", [True, False])
def test_conversations_at_once_are_judged_as_alone(*, same_question: bool) -> None:
    """Half of them loop and half work, in threads, and the server gives all of them equal ids."""
    work = [call("read_file", path=f"{name}.txt") for name in "abcdefgh"]
    with (
        at_once() as recording,
        Server(Looping(READ)).running() as looping,
        Server(Working(*work)).running() as working,
        ThreadPoolExecutor(MANY) as pool,
    ):
        kinds = [looping, working] * (MANY // 2)
        questions = [QUESTION if same_question else f"task-{number}: q" for number in range(MANY)]
        if same_question:  # a server counts the requests of a question
            kinds, questions = kinds[:2], questions[:2]
        found = list(pool.map(lambda one: Agent(one[0]).ask(one[1]), zip(kinds, questions, strict=True)))
    assert found == ["I looked.", "Done."] * (len(kinds) // 2)
    by_turn: dict[Any, list[str]] = {}
    for span, outcome in zip(recording.spans, recording.outcomes, strict=True):
        by_turn.setdefault((span.attributes or {})[semconv.TURN_ID], []).append(outcome)
    looped, worked = ["executed", *["nudged"] * 8], ["executed"] * 8
    assert sorted(by_turn.values()) == sorted([looped, worked] * (len(kinds) // 2))


def test_async_conversations_at_once_are_judged_as_alone() -> None:
    """Each in a task, in one loop."""

    async def ask(client: openai.AsyncOpenAI, number: int) -> int:
        messages: list[Any] = [{"role": "user", "content": f"task-{number}: q"}]
        runs = 0
        while True:
            response = await client.chat.completions.create(model="gpt-4.1", messages=messages, tools=TOOLS)
            message = response.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return runs
            runs += 1
            messages.append({"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "same"})

    async def main(url: str) -> list[int]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="local", max_retries=0) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(MANY)))

    with at_once(), Server(Looping(READ)).running() as server:
        assert asyncio.run(main(server.url)) == [9] * MANY


def test_a_request_may_be_abandoned_in_another_context() -> None:
    """So end the coroutines that the garbage collector closes, and those of frameworks that pass them on."""

    async def silent(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        return httpx.Response(500)

    async def abandon() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(silent))
        client = openai.AsyncOpenAI(base_url="http://local/v1", api_key="local", http_client=http)
        asked: Any = client.chat.completions.create(model="gpt-4.1", messages=[{"role": "user", "content": QUESTION}])
        copy_context().run(asked.send, None)
        asked.close()

    with at_once():
        asyncio.run(abandon())


# --- the time of a request ---------------------------------------------------------------------------------------


def test_a_stream_that_the_program_leaves_has_taken_the_time_until_then() -> None:
    """A program breaks off behind the call: the third read is a loop, however long its model thinks."""
    model = Slow(Looping(READ))
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    with guarded(clock=model.clock) as recording, Server(model).running() as server:
        agent = Agent(server)
        for _ in range(4):
            written = call_id = ""
            stream = agent.client.chat.completions.create(model="gpt-4.1", messages=messages, tools=TOOLS, stream=True)
            while not written.endswith("}"):
                for piece in next(stream).choices[0].delta.tool_calls or ():
                    call_id = piece.id or call_id
                    written += (piece.function and piece.function.arguments) or ""
            made = Call("read_file", json.loads(written), call_id)
            messages += [*WIRE.calls(made), *WIRE.results((made, read_file("a.txt")))]
    assert [(trip.count, trip.verdict) for trip in recording.trips] == [(2, "nudge"), (3, "block")]


def asked_without_tools(server: Server) -> None:
    """Ask for a text."""
    agent = Agent(server)
    agent.client.chat.completions.create(model="gpt-4.1", messages=[{"role": "user", "content": "task-2: sum it up"}])


def test_a_request_in_no_turn_tells_none(told: Told) -> None:
    """It has no tools, and nothing says whose it is."""
    with told.guarded(), Server(told.model).running() as server:
        asked_without_tools(server)
    assert told.seconds == []


def test_a_request_without_tools_takes_time_of_the_turn_around_it(told: Told) -> None:
    """An agent has its model sum up what it found."""
    with told.guarded(), Server(told.model).running() as server, loopguard.turn() as turn:
        asked_without_tools(server)
    assert told.seconds == [(turn.id, 40.0)]


def test_a_request_inside_a_tool_call_takes_time_of_the_nested_turn(told: Told) -> None:
    """The outer model waits for its call meanwhile, and does not think."""

    @loopguard.tool
    def delegate(path: str = "") -> str:
        inner = Agent(server)
        asked_without_tools(server)
        return inner.ask("task-3: what is in it?")

    with told.guarded(), Server(told.model).running() as server, loopguard.turn() as turn:
        Agent(server, run_tool=delegate).ask()
    outer, inner = turn.id, f"{turn.id}/1"
    assert told.seconds == [(outer, 40.0), (inner, 40.0), (inner, 40.0), (outer, 40.0)]


# --- results that the model has lost -----------------------------------------------------------------------------


def test_a_result_that_was_dropped_is_not_held_against_the_next_read() -> None:
    """The program keeps four messages, so the model reads two files again and again: it is nudged, and ends."""
    files = [call("read_file", path=f"{name}.txt") for name in "abc"]
    with at_once() as recording, Server(Looping(*files, rounds=400)).running() as server:
        agent = Agent(server, keep=4)
        with contextlib.suppress(ToolLoopError):
            agent.ask()
    assert server.rejected == []
    assert agent.runs < 120
    assert recording.outcomes[:6] == ["executed"] * 6
    assert any("lost" in text for one in server.exchanges if one.asked for text in _texts(one.asked))


@pytest.mark.parametrize("exchanges", [1, 2])
def test_a_window_in_which_the_result_is_still_seen_hides_no_loop(exchanges: int) -> None:
    """The program keeps the last exchanges: the older results of the call leave, but the model reads the newest."""
    with at_once() as recording, Server(Looping(READ)).running() as server:
        agent = Agent(server, keep=2 * exchanges)
        assert agent.ask() == "I looked."
    assert server.rejected == []
    assert (len(server.exchanges), agent.runs) == (10, 9)
    assert recording.outcomes == ["executed", *["nudged"] * 8]


def _texts(asked: Asked) -> list[str]:
    return [result.text for result in asked.results]


# --- executors in the same turn ----------------------------------------------------------------------------------


def test_a_call_that_an_executor_judges_is_counted_once() -> None:
    """The tools are guarded functions, and the program names its turn."""

    @loopguard.tool
    def read_file(path: str = "") -> str:
        return "text"

    with at_once() as recording, Server(Looping(READ)).running() as server:
        agent = Agent(server, run_tool=read_file)
        with loopguard.turn():
            assert agent.ask() == "I looked."
    assert len(server.exchanges) == 10
    assert recording.outcomes == ["executed", "nudged", *["blocked"] * 7]
    assert [trip.action for trip in recording.trips][-1] == "conclude"


def test_a_task_that_is_handed_on_by_a_guarded_function_comes_back_from_the_third_level() -> None:
    """Each copy of the agent has a message list of its own; none of the levels fails, and each model answers."""
    tools = [{"type": "function", "function": {"name": "delegate", "parameters": {"type": "object", "properties": {}}}}]
    agents: list[Agent] = []

    def hand_on(asked: Asked) -> ModelReply:
        return written("It is done." if asked.results else call("delegate", task="find the owner"))

    with at_once() as recording, Server(hand_on).running() as server:

        @loopguard.tool
        def delegate(task: str) -> str:
            agents.append(Agent(server, run_tool=delegate))
            with loopguard.turn():
                return agents[-1].ask(f"task-1: {task}", tools) if len(agents) <= 12 else "It is too deep."

        assert Agent(server, run_tool=delegate).ask("task-1: find the owner", tools) == "It is done."
    assert server.rejected == []
    assert len(agents) == 2
    assert recording.outcomes == ["executed", "executed", "blocked"]
    assert "Do the task yourself" in agents[-1].messages[-2]["content"]


def test_an_executor_finds_the_turn_of_the_message_that_wrote_its_call() -> None:
    """A guarded function in a hand-written loop is refused; outside of it the function is only observed."""

    @loopguard.tool
    def read_file(path: str = "") -> str:
        return "text"

    def elsewhere(path: str) -> str:  # as ``asyncio.wait_for`` runs it: in a copy of the context
        return copy_context().run(read_file, path)

    with at_once() as recording, Server(Looping(READ)).running() as server:
        assert Agent(server, run_tool=elsewhere).ask() == "I looked."
        assert recording.outcomes == ["executed", "nudged", *["blocked"] * 7]
        assert [read_file("a.txt") for _ in range(5)] == ["text"] * 5
    sources = [(span.attributes or {})[semconv.TURN_SOURCE] for span in recording.spans]
    assert sources == [*["messages"] * 9, *["task"] * 5]


def test_a_call_that_never_reached_its_executor_is_counted() -> None:
    """Something before the guarded function answers, such as a limit of a framework."""
    with at_once() as recording, Server(Looping(READ)).running() as server:
        agent = Agent(server, run_tool=lambda path: f"{path} was not read: the limit is reached.")
        with loopguard.turn():
            assert agent.ask() == "I looked."
    assert len(server.exchanges) == 10
    assert len(recording.outcomes) == 9


# --- faults and leaks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    [
        "ModelReader.open",
        "Exchange._turn",
        "Exchange._count",
        "Exchange._changed",
        "Exchange.listen",
        "Exchange._learn",
    ],
)
def test_a_fault_leaves_the_request_as_it_was(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program gets the results that it would get without the guard."""
    from otel_loopguard.instrumentation import model_reader

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("fault")

    owner, name = place.split(".")
    with at_once() as recording, Server(Working(READ, call("read_file", path="b.txt"))).running() as server:
        monkeypatch.setattr(getattr(model_reader, owner), name, broken)
        assert Agent(server).ask() == "Done."
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) >= 1


def test_nothing_of_a_conversation_is_exported() -> None:
    """Questions, arguments, results and answers stay in the process."""
    canary = "canary-4711"
    with at_once() as recording, Server(Looping(call("read_file", path=canary), answer=canary)).running() as server:
        Agent(server, run_tool=lambda path: path).ask(f"task-1: {canary}")
    exported = "".join(span.to_json() for span in recording.spans)
    assert len(recording.spans) == 9
    assert canary not in exported


def test_the_tokens_of_a_call_that_was_never_made_are_work() -> None:
    """The program fails before its tool returns; the request is booked when the turn is over."""
    with at_once() as recording, Server(Looping(READ)).running() as server:
        agent = Agent(server, run_tool=lambda path: 1 / 0)
        with loopguard.turn(), contextlib.suppress(ZeroDivisionError):
            agent.ask()
        assert recording.counted(semconv.METRIC_MODEL_REQUESTS, loopguard__step="work") == 1


# --- gateways ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [Action.OBSERVE, Action.BLOCK])
def test_a_gateway_learns_that_calls_were_judged(action: Action) -> None:
    """Each request says so, unless this guard only observes: then the gateway protects the agent."""
    with at_once(Policy(action=action)), Server(Looping(READ, rounds=3)).running() as server:
        Agent(server).ask()
    expected = None if action is Action.OBSERVE else "1"
    assert [one.headers.get(JUDGED) for one in server.exchanges] == [expected] * 4


def test_requests_without_tools_are_not_called_judged() -> None:
    """They were not read."""
    with at_once(), Server(Looping(READ)).running() as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", default_headers={"x-own": "1"})
        CLIENTS.append(client)
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": QUESTION}])
        sent = client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": QUESTION}],
            tools=TOOLS,  # type: ignore[arg-type]
            extra_headers={"x-more": "2"},
        )
    assert sent.choices[0].message.tool_calls
    assert [[one.headers.get(name) for name in ("x-own", "x-more", JUDGED)] for one in server.exchanges] == [
        ["1", None, None],
        ["1", "2", "1"],
    ]


@pytest.mark.parametrize(
    ("address", "may_be"),
    [
        ("https://api.openai.com/v1", False),
        ("https://eu.api.openai.com/v1", False),
        ("https://mine.openai.azure.com/openai", False),
        ("https://api.anthropic.com", False),
        ("https://bedrock-runtime.eu-west-1.amazonaws.com", False),
        ("https://aiplatform.googleapis.com", False),
        ("https://openai.com.evil.example/v1", True),
        ("http://litellm:4000", True),
        ("http://127.0.0.1:4000/v1", True),
        ("", False),
    ],
)
def test_a_provider_gets_nothing_that_the_program_did_not_send(address: str, *, may_be: bool) -> None:
    """The header goes to other addresses only."""
    assert may_be_proxy(address) is may_be
