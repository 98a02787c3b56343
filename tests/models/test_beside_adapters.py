"""Frameworks with an adapter, over a client whose requests are read: one call is judged once, by the executor.

The requests serve for the rest: results that the model has lost, calls that no executor ran, the answer without tools.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from otel_loopguard import Ledger, Policy, ToolLoopError, last_turn, semconv, turn
from otel_loopguard.instrumentation.model_api import JUDGED
from otel_loopguard.testing import guarded
from tests.models.scripts import Looping, Working, call
from tests.models.server import Server
from tests.models.test_ledger import PRICES, counted

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore")

QUESTION = "task-1: what is in it?"
READ = call("read_file", path="a.txt")
OTHERS = [call("read_file", path=f"{name}.txt") for name in "abcd"]
at_once = partial(guarded, clock=lambda: 0.0)
"""The guard on a clock that does not move."""


def read_file(path: str) -> str:
    """Read a file."""
    return f"This is file {path}. " * 30


def langgraph(
    server: Server, *, responses: bool = False, streaming: bool = False, middleware: Any = (), task: str = QUESTION,
    **options: Any,
) -> str:  # fmt: skip
    """LangChain's agent over ``openai``."""
    agents, openai = pytest.importorskip("langchain.agents"), pytest.importorskip("langchain_openai")
    model = openai.ChatOpenAI(
        model="gpt-4.1", base_url=f"{server.url}/v1", api_key="local", max_retries=0, use_responses_api=responses,
        streaming=streaming, **options,
    )  # fmt: skip
    agent = agents.create_agent(model, [read_file], middleware=[one(model) for one in middleware])
    state = agent.invoke({"messages": [("user", task)]}, {"recursion_limit": 400})
    return str(state["messages"][-1].text)


def openai_agents(server: Server, *, responses: bool = True) -> str:
    """The OpenAI Agents SDK over ``openai``."""
    agents, openai = pytest.importorskip("agents"), pytest.importorskip("openai")
    client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0)
    kind = agents.OpenAIResponsesModel if responses else agents.OpenAIChatCompletionsModel
    agent = agents.Agent("agent", tools=[agents.function_tool(read_file)], model=kind("gpt-4.1", client))
    agents.set_tracing_disabled(True)

    async def main() -> str:
        async with client:
            return str((await agents.Runner.run(agent, QUESTION, max_turns=40)).final_output)

    return asyncio.run(main())


def pydantic_ai(server: Server) -> str:
    """Pydantic AI over ``anthropic``."""
    pydantic_ai, anthropic = pytest.importorskip("pydantic_ai"), pytest.importorskip("anthropic")
    models = pytest.importorskip("pydantic_ai.models.anthropic")
    providers = pytest.importorskip("pydantic_ai.providers.anthropic")
    client = anthropic.AsyncAnthropic(base_url=server.url, api_key="local", max_retries=0)
    provider = providers.AnthropicProvider(anthropic_client=client)
    agent = pydantic_ai.Agent(models.AnthropicModel("claude-opus-4", provider=provider), tools=[read_file])

    async def main() -> str:
        async with client:
            return str((await agent.run(QUESTION)).output)

    return asyncio.run(main())


PROGRAMS = {
    "langgraph-chat": langgraph,
    "langgraph-chat-streamed": partial(langgraph, streaming=True),
    "langgraph-responses": partial(langgraph, responses=True),
    "langgraph-responses-streamed": partial(langgraph, responses=True, streaming=True),
    "openai-agents-responses": openai_agents,
    "openai-agents-chat": partial(openai_agents, responses=False),
    "pydantic-ai-anthropic": pydantic_ai,
}
over_each = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)


@over_each
def test_a_looping_run_ends_with_an_answer(program: Callable[[Server], str]) -> None:
    """At the executors' limit the next request goes out without tools."""
    with at_once() as recording, Server(Looping(READ)).running() as server:
        assert program(server) == "I looked."
    assert server.rejected == []
    assert len(server.exchanges) == 10
    assert tool_outcomes(recording) == ["executed", "nudged", *["blocked"] * 7]
    assert recording.counted(semconv.METRIC_TOOL_CALLS) == 9
    assert recording.counted(semconv.METRIC_MODEL_REQUESTS, loopguard__step="loop") == 8
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


@over_each
def test_each_request_is_counted_once(program: Callable[[Server], str]) -> None:
    """Where the framework asks its model, and not once more by the client below."""
    with at_once(), Server(Working(READ, tuple(OTHERS[1:3]), OTHERS[3])).running() as server:
        program(server)
        ended = last_turn()
    assert ended is not None
    assert (ended.ledger.requests, ended.ledger.calls) == (len(server.exchanges), 4)


@over_each
def test_a_gateway_learns_that_the_calls_were_judged(program: Callable[[Server], str]) -> None:
    """The client below the framework adds the header, where the requests may go to a gateway."""
    with at_once(), Server(Looping(READ)).running() as server:
        program(server)
    assert {one.headers.get(JUDGED) for one in server.exchanges} == {"1"}


def test_a_gateway_protects_an_agent_that_is_only_observed() -> None:
    """The header would keep it from that."""
    with at_once(Policy(action="observe")), Server(Looping(READ, rounds=3)).running() as server:
        langgraph(server)
    assert {one.headers.get(JUDGED) for one in server.exchanges} == {None}


@over_each
def test_the_tokens_of_a_request_are_measured_once(program: Callable[[Server], str]) -> None:
    """Under the provider's name, which the framework's model knows."""
    with at_once() as recording, Server(Working(*OTHERS)).running() as server:
        program(server)
        ended, read = last_turn(), recording.points(semconv.METRIC_INPUT_TOKENS)
    assert ended is not None
    assert sum(point.value for point in read) == ended.ledger.input_tokens
    assert {point.attributes[semconv.PROVIDER_NAME] for point in read} <= {"openai", "anthropic"}


def test_what_another_instrumentation_measures_is_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its span is around the client's request, below the framework's model that owns it."""
    completions: Any = pytest.importorskip("openai").resources.chat.completions.Completions
    create, tracer = completions.create, TracerProvider().get_tracer("other")

    def traced(*args: Any, **kwargs: Any) -> Any:
        with tracer.start_as_current_span("chat", attributes={semconv.OPERATION_NAME: semconv.OPERATION_CHAT}):
            return create(*args, **kwargs)

    monkeypatch.setattr(completions, "create", traced)
    with at_once() as recording, Server(Working(*OTHERS)).running() as server:
        assert langgraph(server) == "Done."
        assert list(recording.points(semconv.METRIC_INPUT_TOKENS)) == []


@pytest.mark.parametrize("streaming", [False, True])
def test_langgraph_agents_in_64_threads_have_what_the_provider_has_counted(*, streaming: bool) -> None:
    """Requests, calls, tokens and cost, each in the turn of its run."""

    def one(number: int) -> tuple[str, Ledger]:
        with turn() as begun:
            langgraph(server, streaming=streaming, task=f"task-{number}: what is in it?", stream_usage=True)
        return f"task-{number}", begun.ledger.timeless

    prices = Policy(cost_per_million_tokens=PRICES)
    with guarded(prices), Server(Working(*OTHERS)).running() as server, ThreadPoolExecutor(64) as pool:
        ledgers = list(pool.map(one, range(64)))
    assert ledgers == [(task, counted(server, task)) for task, _ in ledgers]
    assert server.rejected == []


@over_each
def test_a_model_that_calls_all_the_same_is_ended(program: Callable[[Server], str]) -> None:
    """``ToolLoopError`` leaves the run."""
    with at_once(), Server(Looping(READ, stubborn=True)).running() as server:
        with pytest.raises(ToolLoopError):
            program(server)
        assert len(server.exchanges) <= 11
    assert server.rejected == []


@over_each
def test_a_working_run_sends_the_same_bytes(program: Callable[[Server], str]) -> None:
    """With the guard and without it."""
    bodies = []
    for guard in (False, True):
        with Server(Working(READ, tuple(OTHERS[1:3]), OTHERS[3])).running() as server:
            if guard:
                with at_once() as recording:
                    assert program(server) == "Done."
                assert tool_outcomes(recording) == ["executed"] * 4
            else:
                assert program(server) == "Done."
        bodies.append(server.bodies())
    assert bodies[0] == bodies[1]


def tool_outcomes(recording: Any) -> list[str]:
    """The outcomes of the spans of tool calls."""
    spans = [span.attributes or {} for span in recording.spans]
    return [str(one[semconv.OUTCOME]) for one in spans if semconv.OUTCOME in one]


# --- what the model has lost, and calls that no executor ran -----------------------------------------------------


def middleware_of(name: str, **options: Any) -> Callable[[Any], Any]:
    """A middleware of LangChain."""
    module = pytest.importorskip("langchain.agents.middleware")
    if name == "ContextEditingMiddleware":
        return lambda model: module.ContextEditingMiddleware(edits=[module.ClearToolUsesEdit(trigger=200, keep=1)])
    if name == "SummarizationMiddleware":
        return lambda model: module.SummarizationMiddleware(model, trigger=("messages", 8), keep=("messages", 2))
    return lambda model: getattr(module, name)(**options)


def test_a_loop_behind_a_limit_of_calls_is_seen() -> None:
    """``ToolCallLimitMiddleware`` answers before the node that runs tools."""
    limit = middleware_of("ToolCallLimitMiddleware", run_limit=3)
    with at_once() as recording, Server(Looping(READ)).running() as server:
        assert langgraph(server, middleware=[limit]) == "I looked."
    assert len(server.exchanges) <= 15
    assert len(tool_outcomes(recording)) == len(server.exchanges) - 1


@pytest.mark.parametrize(
    "name",
    ["ContextEditingMiddleware", "SummarizationMiddleware"],
    ids=["four-cleared", "four-summarised"],
)
def test_reading_again_what_was_lost_is_not_refused_and_ends(name: str) -> None:
    """The agent that reads four files and loses them for ever is nudged, and ends with an answer."""
    with at_once() as recording, Server(Looping(*OTHERS, rounds=600)).running() as server:
        assert langgraph(server, middleware=[middleware_of(name)]) == "I looked."
    read = tool_outcomes(recording)
    assert "blocked" not in read[: 2 * len(OTHERS) + 1]
    assert "nudged" in read
    assert len(server.exchanges) < 250


def test_a_call_is_refused_only_while_its_result_is_in_view() -> None:
    """All but the last result are cleared: the refusal pushes the file out of view, so the next call runs again."""
    clearing = middleware_of("ContextEditingMiddleware")
    with at_once() as recording, Server(Looping(READ, rounds=600)).running() as server:
        assert langgraph(server, middleware=[clearing]) == "I looked."
    read = tool_outcomes(recording)
    assert read[:4] == ["executed", "nudged", "blocked", "executed"]
    assert not [pair for pair in pairwise(read) if pair == ("blocked", "blocked")]
    assert len(server.exchanges) < 50


def test_a_working_agent_that_reads_again_what_it_lost_is_not_refused() -> None:
    """It reads four files, twice, while all but the last result is cleared."""
    clearing = middleware_of("ContextEditingMiddleware")
    with at_once() as recording, Server(Working(*OTHERS, *OTHERS)).running() as server:
        assert langgraph(server, middleware=[clearing]) == "Done."
    assert tool_outcomes(recording) == ["executed"] * 8
