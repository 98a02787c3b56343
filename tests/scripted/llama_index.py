"""A scripted model of LlamaIndex, and a driver for each way of running an agent with it."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from pydantic import PrivateAttr

from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_loopguard.testing import Ask, Transcript
    from tests.scripted import Steps, Tools

_MOST_ITERATIONS = 100
_numbers = itertools.count()


class ScriptedModel(FunctionCallingLLM):
    """Makes the calls of its steps, one step a request, and keeps the requests. Without tools it writes ReAct text."""

    _steps: Any = PrivateAttr()
    _step: int = PrivateAttr(default=-1)
    _answer: str = PrivateAttr()
    _seen: list[Any] = PrivateAttr(default_factory=list)

    def __init__(self, steps: Steps, answer: str = "Done.") -> None:
        super().__init__()
        self._steps, self._answer = steps, answer

    @property
    def metadata(self) -> LLMMetadata:
        """A chat model with tools."""
        return LLMMetadata(is_chat_model=True, is_function_calling_model=True)

    async def achat(self, messages: Sequence[ChatMessage], tools: Any = None, **kwargs: Any) -> ChatResponse:
        """Answer at once."""
        return self._respond(messages, is_text=tools is None)

    async def astream_chat(self, messages: Sequence[ChatMessage], tools: Any = None, **kwargs: Any) -> Any:
        """Answer with one chunk."""

        async def chunks() -> Any:
            yield self._respond(messages, is_text=tools is None)

        return chunks()

    def _respond(self, messages: Sequence[ChatMessage], *, is_text: bool) -> ChatResponse:
        self._seen.append(list(messages))
        last = messages[-1]
        asked_by_user = last.role == "user" and not (last.content or "").startswith("Observation:")
        self._step = 0 if asked_by_user else self._step + 1
        asked = next_calls(self._steps, self._step)
        if is_text:
            return ChatResponse(message=ChatMessage(role="assistant", content=self._text(asked)))
        calls = [
            ToolSelection(tool_id=f"call-{next(_numbers)}", tool_name=a.tool, tool_kwargs=a.arguments) for a in asked
        ]
        written = "" if asked else self._answer
        message = ChatMessage(
            role="assistant", content=written, additional_kwargs={"tool_calls": calls} if calls else {}
        )
        return ChatResponse(message=message, delta=written)

    def _text(self, asked: Sequence[Ask]) -> str:
        """One call, as ReAct has it, or the answer."""
        for ask in asked:
            return f"Thought: I need it.\nAction: {ask.tool}\nAction Input: {json.dumps(ask.arguments)}\n"
        return f"Thought: I can answer.\nAnswer: {self._answer}"

    def get_tool_calls_from_response(self, response: ChatResponse, *args: Any, **kwargs: Any) -> list[ToolSelection]:
        """Return the calls of a response."""
        return list(response.message.additional_kwargs.get("tool_calls", ()))

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        return {"messages": [*(chat_history or ()), *([user_msg] if user_msg else ())], "tools": tools}

    def _not_asked(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    chat = stream_chat = complete = stream_complete = acomplete = astream_complete = _not_asked

    @property
    def read(self) -> list[str]:
        """The text of the tool results in the last request."""
        texts = [(message.role, message.content or "") for message in (self._seen[-1] if self._seen else ())]
        return [
            text.removeprefix("Observation: ")
            for role, text in texts
            if role == "tool" or text.startswith("Observation: ")
        ]


def agent_of(model: ScriptedModel, tools: Sequence[Any] = (), kind: Any = FunctionAgent, **options: Any) -> Any:
    """Build an agent that follows this script."""
    return kind(llm=model, tools=list(tools), **{"name": "helper", "description": "Helps.", **options})


def run(agent: Any, **options: Any) -> Any:
    """Await the agent."""

    async def ask() -> Any:
        return await agent.run("Go on.", **{"max_iterations": _MOST_ITERATIONS, **options})

    return asyncio.run(ask())


def run_events(agent: Any, **options: Any) -> Any:
    """Read the events of the agent, and await it."""

    async def ask() -> Any:
        handler = agent.run(user_msg="Go on.", **{"max_iterations": _MOST_ITERATIONS, **options})
        async for _ in handler.stream_events():
            await asyncio.sleep(0)
        return await handler

    return asyncio.run(ask())


def plain_tools(functions: Tools) -> list[Any]:
    """Make plain tools."""
    return list(functions.values())


def async_tools(functions: Tools) -> list[Any]:
    """Make async tools."""
    return [_async_tool(function) for function in functions.values()]


def _async_tool(function: Callable[..., Any]) -> Any:
    async def run(path: str) -> str:
        await asyncio.sleep(0)
        return str(await asyncio.to_thread(function, path))

    return FunctionTool.from_defaults(async_fn=run, name=function.__name__, description=function.__doc__)


def workflow_of(*agents: Any, **options: Any) -> AgentWorkflow:
    """Build a workflow whose first agent begins."""
    return AgentWorkflow(agents=list(agents), root_agent=agents[0].name, **options)


def driver(go: Callable[[Any], Any] = run, make_tools: Any = plain_tools, around: Any = None, **options: Any) -> Any:
    """Make a driver that runs an agent this way, with tools made this way, alone or as one of a workflow."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        model = ScriptedModel(steps)
        agent = agent_of(model, make_tools(tools), **options)
        return transcript_of(lambda: go(agent if around is None else around(agent)), model)

    return drive


def with_another(agent: Any) -> AgentWorkflow:
    """Put the agent in a workflow with another one that it may hand off to."""
    return workflow_of(agent, agent_of(ScriptedModel([]), name="other"))


DRIVERS = {
    "run": driver(),
    "run-events": driver(run_events),
    "run-async-tools": driver(make_tools=async_tools),
    "run-without-streaming": driver(streaming=False),
    "react": driver(kind=ReActAgent),
    "react-events": driver(run_events, kind=ReActAgent, streaming=False),
    "workflow": driver(around=with_another),
    "workflow-events": driver(run_events, around=with_another),
}


def has_scenario(driver: str, scenario: str) -> bool:
    """Return False for calls at once in the text of a ReAct agent, which can ask for one call only."""
    return not (driver.startswith("react") and scenario == "parallel")


MODEL, TOOLS = ScriptedModel, plain_tools
IN_LOOP = (lambda model, tools: agent_of(model, tools).run("Go on."),)


def _converse(model: ScriptedModel, tools: Sequence[Any], times: int) -> None:
    agent = agent_of(model, tools)

    async def main() -> None:
        context = Context(agent)
        for _ in range(times):
            await agent.run("Go on.", ctx=context)

    asyncio.run(main())


CONVERSATIONS = {"run": _converse}
