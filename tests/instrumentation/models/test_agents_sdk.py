"""The models of the OpenAI Agents SDK: one of the program's own is read as the SDK's own over a client are."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("agents", reason="openai-agents is tested in an environment of its own")

import openai
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.run import ModelInputData
from agents.usage import Usage
from openai.types.responses import Response, ResponseCompletedEvent, ResponseFunctionToolCall, ResponseUsage
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

import otel_loopguard as loopguard
from otel_loopguard import Ledger, Policy, ToolLoopError, semconv
from otel_loopguard.instrumentation.model_api import JUDGED
from otel_loopguard.instrumentation.models import agents_sdk
from otel_loopguard.testing import assert_no_trip, guarded
from tests.instrumentation.models.own_models import OF_FOUR, PRICED, OwnModels, each_way, looked, stuck, working
from tests.models.scripts import Looping, Working, call
from tests.models.server import Server
from tests.models.test_ledger import PRICES, counted
from tests.scripted.openai_agents import config, text_message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.filterwarnings("ignore")

READS = [call("look", path=name) for name in "abc"]


@function_tool
def look(path: str) -> str:
    """Look at something."""
    return looked(path)


class Own(Model):  # type: ignore[misc,unused-ignore]  # the base class is untyped in some versions
    """A model of the program, without a client. ``write`` gets the number of a request, and if tools may be called.

    It answers with a text, or with the path of a call.
    """

    def __init__(self, write: Callable[[int, bool], str], think: Callable[[], None] = lambda: None) -> None:
        self.model = "gpt-own"
        self.seen: list[list[Any]] = []
        self._write = write
        self._think = think

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Answer at once."""
        details = InputTokensDetails.model_validate({"cached_tokens": 3, "cache_write_tokens": 0})
        usage = Usage(
            requests=1, input_tokens=10, output_tokens=5, total_tokens=15, input_tokens_details=details,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
        )  # fmt: skip
        return ModelResponse(output=self._output(args, kwargs), usage=usage, response_id=None)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Answer in the last event of a stream."""
        details = InputTokensDetails.model_validate({"cached_tokens": 3, "cache_write_tokens": 0})
        usage = ResponseUsage(
            input_tokens=10, output_tokens=5, total_tokens=15, input_tokens_details=details,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
        )  # fmt: skip
        response = Response(
            id="response", created_at=0, model="own", object="response", output=self._output(args, kwargs),
            parallel_tool_calls=True, tool_choice="auto", tools=[], usage=usage,
        )  # fmt: skip
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)

    def _output(self, args: Any, kwargs: Any) -> list[Any]:
        given = dict(zip(agents_sdk._PARAMETERS, args, strict=False)) | kwargs
        asked = given["input"]
        self.seen.append([{"role": "user", "content": asked}] if isinstance(asked, str) else list(asked))
        self._think()
        number = len(self.seen)
        written = self._write(number, given["model_settings"].tool_choice != "none")
        if written.endswith("."):
            return [text_message(written)]
        arguments = f'{{"path": "{written}"}}'
        return [
            ResponseFunctionToolCall(type="function_call", name="look", arguments=arguments, call_id=f"call_{number}x8")
        ]


class Around(Model):  # type: ignore[misc,unused-ignore]  # as above
    """A model of the program around another one."""

    def __init__(self, model: Model) -> None:
        self.model = model

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Hand the request on."""
        return await self.model.get_response(*args, **kwargs)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Hand the request on."""
        async for event in self.model.stream_response(*args, **kwargs):
            yield event


class Mixin:
    """The methods of a model, in a class that is none."""

    get_response = Own.get_response
    stream_response = Own.stream_response
    _output = Own._output
    __init__ = Own.__init__


class Mixed(Mixin, Model):  # type: ignore[misc,unused-ignore]  # as above
    """A model whose methods are not its own."""


async def go(model: Model, *, streams: bool = False, task: str = "task-1: look", **options: Any) -> str:
    """Run an agent over this model."""
    agent = Agent(name="helper", model=model, tools=[look])
    options = {"max_turns": 100, "run_config": config(tracing_disabled=True), **options}
    if not streams:
        return str((await Runner.run(agent, task, **options)).final_output)
    result = Runner.run_streamed(agent, task, **options)
    async for _ in result.stream_events():
        pass
    return str(result.final_output)


class TestOwnModelsOfTheAgentsSDK(OwnModels):
    """A model of the program's own, under the Agents SDK."""

    own = staticmethod(Own)
    go = staticmethod(go)
    reads = agents_sdk, "_innermost"

    @staticmethod
    async def hook(model: Model, text: str) -> None:
        """Send a text 12 times."""
        agent, history = Agent(name="helper", model=model, tools=[look]), []
        for _ in range(12):
            history.append({"role": "user", "content": text})
            result = await Runner.run(agent, history, run_config=config(tracing_disabled=True))
            history = result.to_input_list()

    @staticmethod
    async def leave(model: Model) -> None:
        """Cancel a run at its first event."""
        agent = Agent(name="helper", model=model, tools=[look])
        result = Runner.run_streamed(agent, "Go on.", run_config=config(tracing_disabled=True))
        async for _ in result.stream_events():
            result.cancel()


@each_way
@pytest.mark.parametrize("kind", [Own, Mixed, lambda write: Around(Around(Own(write)))], ids=["own", "mixed", "around"])
def test_the_ledger_has_what_an_own_model_tells(kind: Any, *, streams: bool) -> None:
    """Requests, calls, tokens and cost; a model around another one makes the same request."""
    with guarded(PRICED) as recording, loopguard.turn() as turn:
        assert asyncio.run(go(kind(working), streams=streams)) == "Done."
    assert turn.ledger.timeless == OF_FOUR
    assert_no_trip(recording)
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


async def over_client(server: Server, *, responses: bool, **options: Any) -> str:
    client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0)
    kind = OpenAIResponsesModel if responses else OpenAIChatCompletionsModel
    async with client:
        return await go(kind("gpt-4.1", client), **options)


@each_way
@pytest.mark.parametrize("options", [{}, {"auto_previous_response_id": True}], ids=["sent", "kept"])
def test_over_a_client_the_ledger_has_what_the_provider_has_counted(options: Any, *, streams: bool) -> None:
    """The request is not read again below; the bodies are equal to those without the guard."""
    bodies = []
    for guard in (False, True):
        with Server(Working(*READS)).running() as server:
            ask = partial(over_client, server, responses=True, streams=streams, **options)
            if not guard:
                asyncio.run(ask())
            else:
                with guarded(Policy(cost_per_million_tokens=PRICES)) as recording, loopguard.turn() as turn:
                    assert asyncio.run(ask()) == "Done."
                answers = [one.answer["usage"] for one in server.exchanges]
                read, written = (sum(one[f"{name}_tokens"] for one in answers) for name in ("input", "output"))
                cost = pytest.approx((2 * read + 8 * written) / 1e6)
                assert turn.ledger.timeless == Ledger(4, 3, read, written, cost=cost)
                assert_no_trip(recording)
        bodies.append(server.bodies())
    assert bodies[0] == bodies[1]


@each_way
def test_a_chat_model_counts_as_the_provider_does(*, streams: bool) -> None:
    """The SDK asks for the usage of a stream."""
    settings = config(tracing_disabled=True, model_settings=ModelSettings(include_usage=True))
    with guarded(Policy(cost_per_million_tokens=PRICES)), Server(Working(*READS)).running() as server:
        with loopguard.turn() as turn:
            asyncio.run(over_client(server, responses=False, streams=streams, run_config=settings))
        assert turn.ledger.timeless == counted(server)


def cleared(data: Any) -> ModelInputData:
    """Keep the last result only, as filters do that edit the context."""
    items = list(data.model_data.input)
    results = [place for place, item in enumerate(items) if item.get("type") == "function_call_output"]
    for place in results[:-1]:
        items[place] = {**items[place], "output": "[cleared]"}
    return ModelInputData(input=items, instructions=data.model_data.instructions)


@each_way
def test_what_a_filter_has_cleared_is_not_held_against_the_model(*, streams: bool) -> None:
    """It reads four files, twice."""
    model = Own(lambda number, may: "abcdabcd"[number - 1] if number <= 8 else "Done.")
    with guarded(clock=lambda: 0.0) as recording:
        options = {"run_config": config(tracing_disabled=True, call_model_input_filter=cleared)}
        assert asyncio.run(go(model, streams=streams, **options)) == "Done."
    assert recording.outcomes == ["executed"] * 8


def test_an_answer_for_a_program_that_demands_calls() -> None:
    """With ``tool_choice`` the program takes a text for a mistake: the sentence alone asks for an answer."""
    model = Own(stuck)
    settings = config(tracing_disabled=True, model_settings=ModelSettings(tool_choice="required"))
    agent = Agent(name="helper", model=model, tools=[look], reset_tool_choice=False)
    with guarded(), pytest.raises(ToolLoopError):
        asyncio.run(Runner.run(agent, "Go on.", max_turns=100, run_config=settings))
    assert "No tool can be called" in str(model.seen[-1])


def test_a_looping_run_over_a_client_gets_the_choice_none() -> None:
    """The tools stay declared, and a gateway at the client's address is told that the calls are judged."""
    with guarded(), Server(Looping(READS[0])).running() as server:
        assert asyncio.run(over_client(server, responses=True)) == "I looked."
        last = server.bodies()[-1]
        assert {one.headers.get(JUDGED) for one in server.exchanges} == {"1"}
    assert b'"tool_choice":"none"' in last
    assert b'"name":"look"' in last


def test_a_programs_own_class_can_be_sent_to_another_process() -> None:
    """``cloudpickle`` copies a class of ``__main__`` with our functions in it."""
    pytest.importorskip("cloudpickle")
    done = subprocess.run([sys.executable, "-c", _PICKLES], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr


_PICKLES = """
import cloudpickle, pickle
from agents.models.interface import Model
from otel_loopguard.testing import guarded

with guarded():
    class Mine(Model):
        async def get_response(self, *args, **kwargs): ...
        async def stream_response(self, *args, **kwargs):
            yield None

    copied = pickle.loads(cloudpickle.dumps(Mine))
    print(copied is Mine or callable(copied.get_response))
"""
