"""A LangGraph agent with a scripted model. Nothing of the guard is in it: LangGraph is patched, as in any program."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from otel_loopguard.errors import ToolLoopError
from otel_loopguard.testing.agent import Transcript

if TYPE_CHECKING:
    from otel_loopguard.cli.demo.stories import NextCall
    from otel_loopguard.cli.demo.world import Tools

os.environ.update(LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false")  # a scripted run is sent to nobody


class _ScriptedModel(BaseChatModel):
    next_call: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        read = [str(message.content) for message in messages if isinstance(message, ToolMessage)]
        ask = self.next_call(read)
        calls = [] if ask is None else [{"name": ask.tool, "args": ask.arguments, "id": f"call-{len(read)}"}]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if calls else "Done.", tool_calls=calls))])


def run(tools: Tools, next_call: NextCall) -> Transcript:
    """Run the agent for one message of a user."""
    model, transcript = _ScriptedModel(next_call=next_call), Transcript()
    message: Any = {"messages": [("user", "What is the timeout?")]}
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([StructuredTool.from_function(tools["read_file"])]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    try:
        graph.compile().invoke(message)
    except ToolLoopError as error:
        transcript.error = error
    return transcript
