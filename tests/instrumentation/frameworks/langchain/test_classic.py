"""AgentExecutor, LangChain's agent before graphs: tools without call ids, and a stand-in for unknown ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langchain_classic")

from langchain_classic.agents import AgentExecutor, create_tool_calling_agent
from langchain_core.prompts import ChatPromptTemplate

from otel_loopguard import semconv
from otel_loopguard.testing import SCENARIOS, Scenario, Transcript, guarded
from tests.instrumentation.frameworks.langchain.test_graphs import look, script
from tests.scripted.langchain import ScriptedModel, sync_tools

if TYPE_CHECKING:
    from tests.scripted.langchain import Steps, Tools

pytestmark = pytest.mark.filterwarnings("ignore")

PROMPT = ChatPromptTemplate.from_messages([("user", "{input}"), ("placeholder", "{agent_scratchpad}")])


def executor(model: ScriptedModel, tools: Any) -> AgentExecutor:
    return AgentExecutor(agent=create_tool_calling_agent(model, tools, PROMPT), tools=tools, max_iterations=50)


def drive(tools: Tools, steps: Steps, run: Any) -> Transcript:
    transcript, model = Transcript(), ScriptedModel(steps=steps, seen=[])
    try:
        run(executor(model, sync_tools(tools)))
    except BaseException as error:
        transcript.error = error
    transcript.read = model.read
    return transcript


RUNS = {
    "invoke": lambda agent: agent.invoke({"input": "Go on."}),
    "ainvoke": lambda agent: asyncio.run(agent.ainvoke({"input": "Go on."})),
    "stream": lambda agent: list(agent.stream({"input": "Go on."})),
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("run", RUNS)
def test_scenario(run: str, scenario: Scenario) -> None:
    """Each way of running an agent passes the shared scenarios."""
    if scenario.name == "parallel" and run != "ainvoke":
        pytest.skip("it makes one call after the other")
    scenario.run(lambda tools, steps: drive(tools, steps, RUNS[run]))


def test_a_thread_id_names_the_conversation() -> None:
    """A given thread id is the id of the conversation."""
    with guarded() as recording:
        config: Any = {"configurable": {"thread_id": "t"}}
        executor(script("a"), [look]).invoke({"input": "x"}, config)
        assert [(span.attributes or {})[semconv.CONVERSATION_ID] for span in recording.spans] == ["t"]
