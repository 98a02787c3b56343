"""A scripted LangChain model, and a driver for each way of running an agent with LangChain or LangGraph."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode

import otel_loopguard as loopguard
from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.testing import Ask, Transcript
    from tests.scripted import Steps, Tools


QUESTION: dict[str, Any] = {"messages": [("user", "Go on.")]}
_LIMITS: Any = {"recursion_limit": 1_000}


class ScriptedModel(BaseChatModel):
    """Makes the calls of its steps, one step a request, and keeps the requests."""

    steps: Any
    seen: list[list[BaseMessage]] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> ScriptedModel:
        """Ignore the tools: the script names them."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.seen.append(list(messages))
        step = 0  # counted from the last message of the user: a conversation may have several
        for message in messages:
            if isinstance(message, HumanMessage):
                step = 0
            elif isinstance(message, AIMessage) and message.tool_calls:
                step += 1
        asks = next_calls(self.steps, step)
        return ChatResult(generations=[ChatGeneration(message=self._answer(asks))])

    def _answer(self, asks: Sequence[Ask]) -> AIMessage:
        calls = [
            {"name": ask.tool, "args": ask.arguments, "id": f"call-{len(self.seen)}-{number}"}
            for number, ask in enumerate(asks)
        ]
        return AIMessage("" if calls else "Done.", tool_calls=calls)

    @property
    def read(self) -> list[str]:
        """The tool results in the last request, as text."""
        last = self.seen[-1] if self.seen else []
        return [text_of(message) for message in last if isinstance(message, ToolMessage)]


def text_of(message: BaseMessage) -> str:
    """The text of a message, whose content is a string or a list of blocks."""
    if isinstance(message.content, str):
        return message.content
    return " ".join(part if isinstance(part, str) else part.get("text", "") for part in message.content)


def sync_tools(functions: Tools) -> list[StructuredTool]:
    """Make plain tools."""
    return [StructuredTool.from_function(function) for function in functions.values()]


def async_tools(functions: Tools) -> list[StructuredTool]:
    """Make async tools."""
    return [_async_tool(function) for function in functions.values()]


def _async_tool(function: Callable[..., Any]) -> StructuredTool:
    async def run(path: str) -> str:
        await asyncio.sleep(0)
        return str(function(path))

    return StructuredTool.from_function(coroutine=run, name=function.__name__, description="A tool.")


class State(TypedDict):
    """The state of a hand-written graph."""

    messages: Annotated[list[AnyMessage], add_messages]


def own_graph(model: ScriptedModel, tools: list[StructuredTool], **node: Any) -> Any:
    """Build a graph by hand, with the prebuilt ToolNode."""

    def ask(state: State) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    async def aask(state: State) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def following(state: State) -> str:
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    graph = StateGraph(State)
    graph.add_node("model", RunnableLambda(ask, aask))
    graph.add_node("tools", ToolNode(tools, **node))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", following)
    graph.add_edge("tools", "model")
    return graph.compile()


def prebuilt_agent(model: ScriptedModel, tools: list[StructuredTool], **options: Any) -> Any:
    """Build an agent with ``create_agent``, or with the function that came before it."""
    create: Any
    try:
        from langchain.agents import create_agent as create
    except ImportError:
        from langgraph.prebuilt import create_react_agent as create
    return create(model, tools, **options)


def driver(build: Callable[..., Any], run: Callable[[Any], Any], make_tools: Any = sync_tools) -> Any:
    """Make a driver from a function that builds an agent and one that runs it."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        model = ScriptedModel(steps=steps, seen=[])
        agent = build(model, make_tools(tools))
        return transcript_of(lambda: run(agent), model)

    return drive


def bare_loop(tools: Tools, steps: Steps) -> Transcript:
    """Run a loop by hand that invokes the tools, with a model that has them bound."""
    model = ScriptedModel(steps=steps, seen=[])
    by_name = {tool.name: tool for tool in sync_tools(tools)}

    def run() -> None:
        messages: list[BaseMessage] = [HumanMessage("Go on.")]
        with loopguard.turn():
            while (answer := model.bind_tools([]).invoke(messages)).tool_calls:
                messages.append(answer)
                messages.extend(by_name[call["name"]].invoke(call) for call in answer.tool_calls)

    return transcript_of(run, model)


def _invoke(agent: Any) -> None:
    agent.invoke(QUESTION, _LIMITS)


def _ainvoke(agent: Any) -> None:
    asyncio.run(agent.ainvoke(QUESTION))


def _stream(agent: Any) -> None:
    for _ in agent.stream(QUESTION, stream_mode="messages"):
        pass


def _astream(agent: Any) -> None:
    async def run() -> None:
        async for _ in agent.astream(QUESTION, stream_mode=["updates", "custom"]):
            await asyncio.sleep(0)

    asyncio.run(run())


def _events(agent: Any) -> None:
    async def run() -> None:
        async for _ in agent.astream_events(QUESTION, version="v2"):
            pass

    asyncio.run(run())


DRIVERS = {
    "agent-invoke": driver(prebuilt_agent, _invoke),
    "agent-ainvoke": driver(prebuilt_agent, _ainvoke, async_tools),
    "agent-ainvoke-sync-tools": driver(prebuilt_agent, _ainvoke),
    "agent-stream": driver(prebuilt_agent, _stream),
    "agent-astream": driver(prebuilt_agent, _astream, async_tools),
    "graph-invoke": driver(own_graph, _invoke),
    "graph-astream": driver(own_graph, _astream, async_tools),
    "graph-events": driver(own_graph, _events, async_tools),
    "bare-loop": bare_loop,
}
