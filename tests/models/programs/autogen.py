"""An agent of ``autogen-agentchat``."""

from __future__ import annotations

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient

from tests.models.programs import SYSTEM, Toolbox, main


async def ask(url: str, question: str, tools: Toolbox) -> object:
    """An assistant that calls tools until it has an answer."""
    client = OpenAIChatCompletionClient(model="gpt-4.1-2025-04-14", base_url=f"{url}/v1", api_key="local")
    agent = AssistantAgent(
        "reader", client, tools=list(tools.functions().values()), system_message=SYSTEM, max_tool_iterations=60
    )
    result = await agent.run(task=question)
    return result.messages[-1].content


def program(url: str, question: str, tools: Toolbox) -> object:
    """Run the agent."""
    return asyncio.run(ask(url, question, tools))


if __name__ == "__main__":
    main(program)
