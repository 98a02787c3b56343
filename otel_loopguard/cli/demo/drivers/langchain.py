"""LangChain's ``create_agent``. Nothing of otel_loopguard is in what it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool, ToolException

from otel_loopguard.cli.demo.world import failing_as

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langchain_core.messages import BaseMessage

    from otel_loopguard.cli.demo.model import Model


class ScriptedModel(BaseChatModel):
    """Asks the demo's model."""

    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> ScriptedModel:
        """It knows its tools by heart."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        read = [str(message.content) for message in messages if isinstance(message, ToolMessage)]
        ask = self.script.next(read)
        calls = [] if ask is None else [{"name": ask.tool, "args": ask.arguments, "id": f"call-{len(read)}"}]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if calls else "Done.", tool_calls=calls))])


def _fail(text: str) -> str:
    raise ToolException(text)


def run(tools: Mapping[str, Callable[..., str]], model: Model) -> None:
    """One message of a user."""
    told = [
        StructuredTool.from_function(failing_as(tool, _fail), handle_tool_error=True)  # type: ignore[arg-type, unused-ignore]
        for tool in tools.values()
    ]
    agent: Any = create_agent(ScriptedModel(script=model), told, name="demo")
    agent.invoke({"messages": [("user", "Go on.")]}, {"recursion_limit": 1_000})
