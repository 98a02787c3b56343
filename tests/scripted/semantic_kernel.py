"""A chat completion service for Semantic Kernel that follows a script, and a driver for each way of running it."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any, ClassVar

from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.prompt_execution_settings import PromptExecutionSettings
from semantic_kernel.contents import (
    AuthorRole,
    ChatHistory,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
    StreamingChatMessageContent,
    StreamingTextContent,
    TextContent,
)
from semantic_kernel.functions import KernelPlugin, kernel_function

from otel_loopguard.testing import Ask
from tests.scripted import next_calls, transcript_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from otel_loopguard.testing import Transcript
    from tests.scripted import Steps, Tools

ATTEMPTS = 30
_numbers = itertools.count()


class Script(ChatCompletionClientBase):
    """Makes the calls of its steps, one step a request, and keeps the requests."""

    SUPPORTS_FUNCTION_CALLING: ClassVar[bool] = True
    steps: Any = ()
    answer: str = "Done."
    seen: list[Any] = []

    @classmethod
    def of(cls, steps: Steps, answer: str = "Done.") -> Script:
        """Make a service that follows these steps."""
        return cls(ai_model_id="script", steps=steps, answer=answer, seen=[])

    def _update_function_choice_settings_callback(self) -> Any:
        return lambda configuration, settings, choice_type: None

    def _reset_function_choice_settings(self, settings: Any) -> None: ...

    async def _inner_get_chat_message_contents(self, chat_history: ChatHistory, settings: Any) -> list[Any]:
        items = self._next(chat_history) or [TextContent(text=self.answer)]
        return [ChatMessageContent(role=AuthorRole.ASSISTANT, items=items)]

    async def _inner_get_streaming_chat_message_contents(
        self, chat_history: ChatHistory, settings: Any, function_invoke_attempt: int = 0
    ) -> AsyncIterator[list[Any]]:
        calls = self._next(chat_history)
        words = [[StreamingTextContent(text=f"{word} ", choice_index=0)] for word in self.answer.split()]
        for items in [calls] if calls else words:
            yield [
                StreamingChatMessageContent(
                    role=AuthorRole.ASSISTANT,
                    items=items,
                    choice_index=0,
                    function_invoke_attempt=function_invoke_attempt,
                )
            ]

    def _next(self, history: ChatHistory) -> list[Any]:
        messages = list(history.messages)
        self.seen.append(messages)
        step = 0  # counted from the last message of the user: a conversation may have several
        for message in messages:
            if message.role == AuthorRole.USER:
                step = 0
            step += any(isinstance(item, FunctionCallContent) for item in message.items)
        return [
            FunctionCallContent(
                id=f"call-{next(_numbers)}", index=number, name=ask.tool, arguments=json.dumps(ask.arguments)
            )
            for number, ask in enumerate(next_calls(self.steps, step))
        ]

    @property
    def returned(self) -> list[FunctionResultContent]:
        """The tool results in the last request."""
        last = self.seen[-1] if self.seen else []
        return [item for message in last for item in message.items if isinstance(item, FunctionResultContent)]

    @property
    def read(self) -> list[str]:
        """The text of the tool results in the last request."""
        return [str(result.result) for result in self.returned]


def plugin_of(functions: Tools, name: str = "files") -> KernelPlugin:
    """Make a plugin of these functions."""
    return KernelPlugin.from_object(name, {key: kernel_function(one) for key, one in functions.items()})


def async_tools(functions: Tools) -> Tools:
    """Make async tools."""
    return {name: _async_tool(function) for name, function in functions.items()}


def _async_tool(function: Callable[..., Any]) -> Callable[..., Any]:
    async def run(path: str) -> str:
        await asyncio.sleep(0)
        return str(await asyncio.to_thread(function, path))

    run.__name__ = function.__name__
    return run


def agent_of(script: Script, plugins: Sequence[Any] = (), **options: Any) -> ChatCompletionAgent:
    """Build an agent that follows this script."""
    behavior = FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=ATTEMPTS)
    settings = {"name": "helper", "function_choice_behavior": behavior, **options}
    return ChatCompletionAgent(service=script, plugins=list(plugins), **settings)


async def get_response(script: Script, plugin: KernelPlugin, **options: Any) -> Any:
    """Run an agent with ``get_response``."""
    return await agent_of(script, [plugin]).get_response("Go on.", **options)


async def invoke(script: Script, plugin: KernelPlugin, **options: Any) -> Any:
    """Run an agent with ``invoke``."""
    return [item async for item in agent_of(script, [plugin]).invoke("Go on.", **options)]


async def invoke_stream(script: Script, plugin: KernelPlugin, **options: Any) -> Any:
    """Run an agent with ``invoke_stream``."""
    return [item async for item in agent_of(script, [plugin]).invoke_stream("Go on.", **options)]


def _chat(script: Script, plugin: KernelPlugin) -> dict[str, Any]:
    kernel = Kernel(services=[script], plugins={plugin.name: plugin})
    history = ChatHistory()
    history.add_user_message("Go on.")
    behavior = FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=ATTEMPTS)
    settings = PromptExecutionSettings(function_choice_behavior=behavior)
    return {"chat_history": history, "settings": settings, "kernel": kernel}


async def chat(script: Script, plugin: KernelPlugin) -> Any:
    """Let the service call functions, without an agent."""
    return await script.get_chat_message_contents(**_chat(script, plugin))


async def chat_stream(script: Script, plugin: KernelPlugin) -> Any:
    """Let the service call functions, without an agent, in a stream."""
    return [part async for part in script.get_streaming_chat_message_contents(**_chat(script, plugin))]


WAYS = (get_response, invoke, invoke_stream, chat, chat_stream)


def driver(go: Any, make_tools: Callable[[Tools], Tools] = dict) -> Any:
    """Make a driver that runs this way, with tools made this way."""

    def drive(tools: Tools, steps: Steps) -> Transcript:
        script = Script.of(steps)
        return transcript_of(lambda: asyncio.run(go(script, plugin_of(make_tools(tools)))), script)

    return drive


DRIVERS = {
    **{go.__name__.replace("_", "-"): driver(go) for go in WAYS},
    "get-response-async-tools": driver(get_response, async_tools),
    "invoke-stream-async-tools": driver(invoke_stream, async_tools),
}

MODEL, TOOLS = Script.of, plugin_of
IN_LOOP = AT_ONCE = WAYS


def _ask_helper(boss: Script, script: Script, plugin: KernelPlugin) -> None:
    helper = agent_of(script, [plugin], description="Works.")
    asyncio.run(agent_of(boss, [helper]).get_response("Go on."))


def _converse(script: Script, plugin: KernelPlugin, times: int) -> None:
    async def main() -> None:
        thread, agent = ChatHistoryAgentThread(thread_id="thread-1"), agent_of(script, [plugin])
        for _ in range(times):
            await agent.get_response("Go on.", thread=thread)

    asyncio.run(main())


NESTED = {"plugin": (lambda task: Ask("helper-helper", {"messages": task}), _ask_helper)}
CONVERSATIONS = {"get_response": _converse}
STREAMS = {"invoke_stream": lambda script, plugin: agent_of(script, [plugin]).invoke_stream("Go on.")}
