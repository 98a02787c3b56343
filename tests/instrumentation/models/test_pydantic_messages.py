"""The models of Pydantic AI: its function model, which has no client, is read as a model over a client is."""

from __future__ import annotations

import asyncio
import importlib
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is tested in an environment of its own")

from pydantic_ai import Agent, ToolOutput
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

import otel_loopguard as loopguard
from otel_loopguard import Ledger, Policy, RunBudgetError, ToolLoopError, semconv
from otel_loopguard.instrumentation.model_api import JUDGED
from otel_loopguard.instrumentation.models import pydantic_messages
from otel_loopguard.testing import assert_no_trip, guarded
from tests.instrumentation.models.own_models import OF_FOUR, PRICED, OwnModels, each_way, looked, stuck, working
from tests.models.scripts import Looping, Working, call
from tests.models.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.filterwarnings("ignore")

READS = [call("look", path=name) for name in "abc"]


def look(path: str) -> str:
    """Look at something."""
    return looked(path)


class Own(FunctionModel):
    """A model without a client. ``write`` gets the number of a request, and if tools may be called.

    It answers with a text, or with the path of a call.
    """

    def __init__(self, write: Callable[[int, bool], str], think: Callable[[], None] = lambda: None) -> None:
        super().__init__(self._whole, stream_function=self._streamed, model_name="gpt-own")
        self.seen: list[list[ModelMessage]] = []
        self._write = write
        self._think = think

    def _whole(self, messages: list[Any], info: Any) -> ModelResponse:
        written, usage = self._next(messages, info), RequestUsage(input_tokens=10, output_tokens=5, cache_read_tokens=3)
        if not written.endswith("."):
            part: Any = ToolCallPart("look", {"path": written}, f"call_{len(self.seen)}x8")
        elif info.output_tools:
            part = ToolCallPart(info.output_tools[0].name, {"response": written}, "answer")
        else:
            part = TextPart(written)
        return ModelResponse(parts=[part], usage=usage)

    async def _streamed(self, messages: list[Any], info: Any) -> AsyncIterator[Any]:
        written = self._next(messages, info)
        if written.endswith("."):
            for letter in written:
                yield letter
        else:
            call_id = f"call_{len(self.seen)}x8"
            yield {0: DeltaToolCall(name="look", json_args=f'{{"path": "{written}"}}', tool_call_id=call_id)}

    def _next(self, messages: list[Any], info: Any) -> str:
        self.seen.append(messages)
        self._think()
        chosen = (info.model_settings or {}).get("tool_choice")
        return self._write(len(self.seen), bool(info.function_tools) and chosen != "none")


def falling_back(write: Callable[[int, bool], str]) -> FallbackModel:
    """A model that asks two others, in turn."""
    return FallbackModel(Own(write), Own(write))


async def go(model: Any, *, streams: bool = False, task: str = "task-1: look", **options: Any) -> str:
    """Run an agent over this model."""
    given = {name: options.pop(name) for name in ("message_history", "model_settings") if name in options}
    agent: Any = Agent(model, name="helper", tools=[look], retries=20, **options)
    if not streams:
        return str((await agent.run(task, **given)).output)
    async with agent.run_stream(task, **given) as result:
        return str(await result.get_output())


class TestOwnModelsOfPydanticAI(OwnModels):
    """A model of the program's own, under Pydantic AI."""

    own = staticmethod(Own)
    go = staticmethod(go)
    reads = pydantic_messages, "_system"

    @staticmethod
    async def hook(model: Any, text: str) -> None:
        """Send a text 12 times."""
        agent, history = Agent(model, tools=[look]), None
        for _ in range(12):
            history = (await agent.run(text, message_history=history)).all_messages()

    @staticmethod
    async def leave(model: Any) -> None:
        """Leave the block at the first word."""
        async with Agent(model, tools=[look]).run_stream("Go on.") as result:
            async for _ in result.stream_text(debounce_by=None):
                break


KINDS = {"own": Own, "around": lambda write: WrapperModel(WrapperModel(Own(write))), "falling back": falling_back}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_ledger_has_what_a_model_tells(kind: Any) -> None:
    """Requests, calls, tokens and cost; a model around others makes the same request."""
    with guarded(PRICED) as recording, loopguard.turn() as turn:
        assert asyncio.run(go(kind(working))) == "Done."
    assert turn.ledger.timeless == OF_FOUR
    assert_no_trip(recording)
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_streamed_run_has_its_tokens_at_the_end_of_each_stream(kind: Any) -> None:
    """The function model estimates them; the run's own sum is the measure."""

    async def main() -> Any:
        agent: Any = Agent(kind(working), tools=[look])
        async with agent.run_stream("Go on.") as result:
            await result.get_output()
        return result.usage() if callable(result.usage) else result.usage

    with guarded() as recording, loopguard.turn() as turn:
        usage = asyncio.run(main())
    spent = (turn.ledger.requests, turn.ledger.calls, turn.ledger.input_tokens, turn.ledger.output_tokens)
    assert spent == (4, 3, usage.input_tokens, usage.output_tokens)
    assert turn.ledger.unmetered == 0
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


over_a_client = pytest.mark.skipif(find_spec("openai") is None, reason="tested beside a client in the matrix")


def openai_model(server: Server, *, responses: bool) -> tuple[Any, Any]:
    """A model over OpenAI's client, and the client."""
    openai = pytest.importorskip("openai")
    models, provider = (importlib.import_module(f"pydantic_ai.{name}.openai") for name in ("models", "providers"))
    client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0)
    kind = models.OpenAIResponsesModel if responses else models.OpenAIChatModel
    return kind("gpt-4.1", provider=provider.OpenAIProvider(openai_client=client)), client


async def over_client(server: Server, *, responses: bool = True, **options: Any) -> str:
    pytest.importorskip("pydantic_ai.models.openai")
    model, client = openai_model(server, responses=responses)
    async with client:
        return await go(model, **options)


KEPT = {"model_settings": {"openai_previous_response_id": "auto"}}


@over_a_client
@each_way
@pytest.mark.parametrize("options", [{}, KEPT, {"responses": False}], ids=["sent", "kept", "chat"])
def test_over_a_client_the_ledger_has_what_the_provider_has_counted(options: Any, *, streams: bool) -> None:
    """The request is not read again below; the bodies are equal to those without the guard."""
    bodies = []
    for guard in (False, True):
        with Server(Working(*READS)).running() as server:
            ask = partial(over_client, server, streams=streams, **options)
            if not guard:
                asyncio.run(ask())
            else:
                with guarded(PRICED) as recording, loopguard.turn() as turn:
                    assert asyncio.run(ask()) == "Done."
                names = ("prompt", "completion") if "responses" in options else ("input", "output")
                answers = [one.answer["usage"] for one in server.exchanges]
                read, written = (sum(one[f"{name}_tokens"] for one in answers) for name in names)
                cost = pytest.approx((2 * read + 8 * written) / 1e6)
                known = Ledger(4, 3, read, written, cost=cost)
                if not pydantic_messages._has_choice() and "responses" not in options:
                    known = Ledger(4, 3, unmetered=4, unpriced=4)  # with today's price list it finds no tokens
                assert turn.ledger.timeless == known
                assert_no_trip(recording)
        bodies.append(server.bodies())
    assert bodies[0] == bodies[1]


def test_an_agent_with_an_answer_tool_answers_by_it() -> None:
    """The tool of its output stays."""
    model = Own(stuck)
    with guarded() as recording:
        assert asyncio.run(go(model, output_type=ToolOutput(str))) == "I looked."
    assert recording.outcomes == ["executed", "nudged", *["blocked"] * 7]


@over_a_client
@each_way
def test_a_looping_run_over_a_client_answers(*, streams: bool) -> None:
    """The client sends what the model is told, and that a gateway need not judge the calls."""
    with guarded(), Server(Looping(READS[0])).running() as server:
        assert asyncio.run(over_client(server, streams=streams)) == "I looked."
        last = server.exchanges[-1].asked
        assert {one.headers.get(JUDGED) for one in server.exchanges} == {"1"}
    assert server.rejected == []
    assert last is not None
    assert not last.may_call
    assert last.reads("No tool can be called for this answer")


@each_way
def test_the_end_of_a_run_is_no_failure_of_one_of_its_models(*, streams: bool) -> None:
    """A budget ends the run of a model that falls back to another one: neither is asked again."""
    stubborn = [Own(lambda number, _: f"p{number}") for _ in range(2)]
    model = FallbackModel(*stubborn, fallback_on=(Exception,))
    with guarded(Policy(budget={"tree": {"requests": 8}})), pytest.raises(RunBudgetError):
        asyncio.run(go(model, streams=streams))
    assert [len(one.seen) for one in stubborn] == [9, 0]


def cleared(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Keep the last result only, as processors do that edit the context."""
    kept: list[ModelMessage] = []
    for message in messages:
        if isinstance(message, ModelRequest) and message is not messages[-1]:
            parts = [
                ToolReturnPart(part.tool_name, "[cleared]", part.tool_call_id)
                if isinstance(part, ToolReturnPart)
                else part
                for part in message.parts
            ]
            kept.append(ModelRequest(parts=parts))
        else:
            kept.append(message)
    return kept


def processed(processor: Any) -> dict[str, Any]:
    """The option of an agent for a processor of its history."""
    history = getattr(importlib.import_module("pydantic_ai.capabilities"), "ProcessHistory", None)
    return {"history_processors": [processor]} if history is None else {"capabilities": [history(processor)]}


@each_way
def test_what_a_processor_has_cleared_is_not_held_against_the_model(*, streams: bool) -> None:
    """It reads four files, twice."""
    model = Own(lambda number, _: "abcdabcd"[number - 1] if number <= 8 else "Done.")
    with guarded(clock=lambda: 0.0) as recording:
        assert asyncio.run(go(model, streams=streams, **processed(cleared))) == "Done."
    assert recording.outcomes == ["executed"] * 8


def test_the_span_of_its_own_instrumentation_measures_the_request() -> None:
    """A model that only makes a span around another is passed over, and ours measures nothing beside it."""
    instrumented = importlib.import_module("pydantic_ai.models.instrumented")
    with guarded() as recording, loopguard.turn() as turn:
        settings = instrumented.InstrumentationSettings(
            tracer_provider=recording.tracer_provider, meter_provider=recording.meter_provider
        )
        asyncio.run(go(instrumented.InstrumentedModel(Own(working), settings)))
        assert recording.runtime.providers.unmeasured >= {semconv.OPERATION_CHAT}
    assert turn.ledger.requests == 4


@pytest.mark.skipif(not hasattr(FunctionModel, "continuation_delay"), reason="this version waits for no job")
def test_waiting_for_a_job_is_no_request() -> None:
    """The framework asks the model again until the provider has done the job."""

    class Job(Own):
        def _whole(self, messages: list[Any], info: Any) -> ModelResponse:
            response = super()._whole(messages, info)
            response.provider_response_id, response.state = "job", "complete" if len(self.seen) > 3 else "suspended"
            return response

        def continuation_delay(self, response: ModelResponse) -> float | None:
            return 0.0 if response.state == "suspended" else None

    model = Job(lambda number, _: f"Answer {number}.")
    with guarded() as recording, loopguard.turn() as turn:
        assert asyncio.run(go(model)) == "Answer 4."
    assert len(model.seen) == 4
    assert turn.ledger.requests == 1
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_a_result_that_is_no_text_takes_a_sentence() -> None:
    """An object gets one more key, a list one more item; other values become their text."""
    annotate = pydantic_messages.MESSAGES_OF_AI.annotate
    found = [annotate(ToolReturnPart("look", content, "x"), {0: "So."}).content for content in ({"a": 1}, [1], 7, "a")]
    assert found == [{"a": 1, "loopguard": "So."}, [1, "So."], "7\n\nSo.", "a\n\nSo."]


@pytest.mark.parametrize(("system", "left"), [("openai", 0), ("function", 0), ("anthropic", 1), ("bedrock", 1)])
def test_where_tools_cannot_be_withheld_they_are_left_out(
    monkeypatch: pytest.MonkeyPatch, system: str, left: int
) -> None:
    """In old versions; not where the provider rejects results of tools that are not declared."""
    monkeypatch.setattr(pydantic_messages, "_has_choice", lambda: False)
    declared = ModelRequestParameters(function_tools=[ToolDefinition(name="look")])
    body = {"messages": [], "model_settings": None, "model_request_parameters": declared}
    withdrawn = pydantic_messages._dialect_of(system).withdraw(body)
    assert len(withdrawn["model_request_parameters"].function_tools) == left


def test_providers_have_the_names_of_the_conventions() -> None:
    """A model that falls back has the first one's."""
    assert pydantic_messages._dialect_of("bedrock").provider == "aws.bedrock"
    assert pydantic_messages._dialect_of("google-gla").operation == semconv.OPERATION_GENERATE_CONTENT
    assert pydantic_messages._system(falling_back(working)) == "function"


def test_a_stream_that_repeats_itself_is_cut_if_the_policy_says_so() -> None:
    """The run is ended after about 2,000 of 39,000 characters."""

    async def chants(_messages: Any, _info: Any) -> AsyncIterator[str]:
        for _ in range(500):
            yield "The line goes on, and on. " * 3

    policy = Policy(modes={"text_run": {"action": "abort"}})
    model: Any = FunctionModel(stream_function=chants, model_name="gpt-own")
    with guarded(policy) as recording, pytest.raises(ToolLoopError, match="equal blocks"):
        asyncio.run(go(model, streams=True))
    assert [str(trip.action) for trip in recording.trips] == ["observe", "abort"]
