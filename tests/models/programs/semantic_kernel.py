"""An agent of ``semantic-kernel``."""

from __future__ import annotations

import asyncio

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import KernelPlugin, kernel_function

from tests.models.programs import SYSTEM, Toolbox, main


async def ask(url: str, question: str, tools: Toolbox) -> object:
    """An agent with a plugin of functions."""
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="local")
    functions = {name: kernel_function(one) for name, one in tools.functions().items()}
    agent = ChatCompletionAgent(
        service=OpenAIChatCompletion("gpt-4.1", async_client=client),
        name="reader",
        instructions=SYSTEM,
        plugins=[KernelPlugin.from_object("files", functions)],
        function_choice_behavior=FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=60),
    )
    return (await agent.get_response(question)).message.content


def program(url: str, question: str, tools: Toolbox) -> object:
    """Run the agent."""
    return asyncio.run(ask(url, question, tools))


if __name__ == "__main__":
    main(program)
