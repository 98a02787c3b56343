"""Agents whose answer is a call of a tool are concluded by that tool; where none is known, the run is ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from otel_loopguard import Policy, ToolLoopError
from otel_loopguard.testing import guarded
from tests.models.conversation import Asked, Reply
from tests.models.scripts import Looping, call, written
from tests.models.server import Server
from tests.models.test_beside_adapters import QUESTION, read_file

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore")

READ = call("read_file", path="a.txt")


class Found(BaseModel):
    """The answer."""

    owner: str


def answering(asked: Asked) -> Reply:
    """Read the same file for ever; call the one tool that is demanded or left; answer where no tool may be called."""
    if not asked.may_call:
        return Reply("I looked.")
    if asked.choice not in ("auto", "required"):
        return written(call(asked.choice, owner="Ada"))
    return written(READ if "read_file" in asked.tools else call(*asked.tools, owner="Ada"))


def create_agent(server: Server, **options: Any) -> Any:
    """LangChain's agent over ``openai``, whose answer is a tool."""
    agents, openai = pytest.importorskip("langchain.agents"), pytest.importorskip("langchain_openai")
    strategies = pytest.importorskip("langchain.agents.structured_output")
    model = openai.ChatOpenAI(model="gpt-4.1", base_url=f"{server.url}/v1", api_key="local", max_retries=0, **options)
    agent = agents.create_agent(model, [read_file], response_format=strategies.ToolStrategy(Found))
    return agent.invoke({"messages": [("user", QUESTION)]}, {"recursion_limit": 400})["structured_response"]


def create_agent_responses(server: Server) -> Any:
    """The same over the Responses API."""
    return create_agent(server, use_responses_api=True)


def pydantic_openai(server: Server) -> Any:
    """Pydantic AI over ``openai``, whose default way of a structured answer is a tool."""
    ai, openai = pytest.importorskip("pydantic_ai"), pytest.importorskip("openai")
    models = pytest.importorskip("pydantic_ai.models.openai")
    providers = pytest.importorskip("pydantic_ai.providers.openai")
    client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0)
    model = models.OpenAIChatModel("gpt-4.1", provider=providers.OpenAIProvider(openai_client=client))
    return asyncio.run(ai.Agent(model, tools=[read_file], output_type=Found).run(QUESTION)).output


def pydantic_anthropic(server: Server) -> Any:
    """Pydantic AI over ``anthropic``, with a name of the program's own for the tool."""
    ai, anthropic = pytest.importorskip("pydantic_ai"), pytest.importorskip("anthropic")
    models = pytest.importorskip("pydantic_ai.models.anthropic")
    providers = pytest.importorskip("pydantic_ai.providers.anthropic")
    client = anthropic.AsyncAnthropic(base_url=server.url, api_key="local", max_retries=0)
    provider = providers.AnthropicProvider(anthropic_client=client)
    output = ai.ToolOutput(Found, name="report")
    agent = ai.Agent(models.AnthropicModel("claude-opus-4", provider=provider), tools=[read_file], output_type=output)
    return asyncio.run(agent.run(QUESTION)).output


def agents_sdk(server: Server) -> Any:
    """The Agents SDK, whose run stops at a function of the program's own."""
    sdk, openai = pytest.importorskip("agents"), pytest.importorskip("openai")

    def report(owner: str) -> str:
        """Report the owner."""
        return owner

    client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0)
    agent = sdk.Agent(
        name="helper", model=sdk.OpenAIChatCompletionsModel("gpt-4.1", client), reset_tool_choice=False,
        tools=[sdk.function_tool(read_file), sdk.function_tool(report)],
        tool_use_behavior={"stop_at_tool_names": ["report"]}, model_settings=sdk.ModelSettings(tool_choice="required"),
    )  # fmt: skip
    ran = sdk.Runner.run(agent, QUESTION, max_turns=100, run_config=sdk.RunConfig(tracing_disabled=True))
    return Found(owner=asyncio.run(ran).final_output)


PROGRAMS = (create_agent, create_agent_responses, pydantic_openai, pydantic_anthropic, agents_sdk)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_the_answer_tool_is_demanded(program: Callable[[Server], Any]) -> None:
    """The run ends with its 10th request, in the answer's own type."""
    with guarded(clock=lambda: 0.0), Server(answering).running() as server:
        assert program(server).owner == "Ada"
    assert server.rejected == []
    assert len(server.exchanges) == 10
    assert [one.asked.choice for one in server.exchanges if one.asked].count("none") == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_the_answer_tool_is_demanded_at_a_budget(program: Callable[[Server], Any]) -> None:
    """Its call runs, although the budget is spent."""
    with guarded(Policy(budget={"tree": {"requests": 2}})), Server(answering).running() as server:
        assert program(server).owner == "Ada"
    assert len(server.exchanges) == 3


FUNCTION: Any = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}


def ask_for_ever(server: Server, choice: Any) -> None:
    """A loop that demands a call in each request, as for an answer that is one."""
    client = pytest.importorskip("openai").OpenAI(base_url=f"{server.url}/v1", api_key="local")
    messages: list[Any] = [{"role": "user", "content": "task-1"}]
    while True:
        reply = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=[FUNCTION], tool_choice=choice)
        message = reply.choices[0].message
        results = [{"role": "tool", "tool_call_id": one.id, "content": "the text"} for one in message.tool_calls]
        messages += [message, *results]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "read_file"}}], ids=str)
def test_a_program_that_demands_a_call_is_told_and_ended(choice: Any) -> None:
    """No tool is known to be its answer: it is never asked for a text, which it takes for a mistake."""
    with guarded(clock=lambda: 0.0), Server(Looping(READ)).running() as server, pytest.raises(ToolLoopError):
        ask_for_ever(server, choice)
    asked = [one.asked for one in server.exchanges if one.asked]
    assert {one.choice for one in asked} == {"required" if choice == "required" else "read_file"}
    assert 10 <= len(asked) <= 12
    assert asked[-1].reads("say what is missing")
